create function pgq._run_place(
    write_id uuid, task integer, first_chunk integer, partition integer, segment integer,
    partitions integer, messages integer
)
returns pgq._run_place
language plpgsql volatile parallel unsafe
as $$
declare
    -- Limit of an extent: readers that share the work divide it by extents.
    most constant integer := 250000;
    run pgq.staged_run;
    place pgq._run_place;
begin
    -- Ids are negative and descend: the newest extent has the lowest.
    select r.*
    into run
    from pgq.staged_run as r
    where r.write_id = _run_place.write_id
        and r.task = _run_place.task
        and r.partition = _run_place.partition
        and r.first_chunk = _run_place.first_chunk
    order by r.stored_partition_id
    limit 1;

    if run.segment = segment and run.partitions is not distinct from partitions then
        place.stored_partition_id := run.stored_partition_id;
        place.next_offset := (pgq._newest(run.stored_partition_id, run.segment, 1)).log_offset + 1;
        if place.next_offset + messages <= most then
            return place;
        end if;
    end if;

    insert into pgq.staged_run (
        write_id, task, first_chunk, partition, stored_partition_id, segment, partitions
    )
    values (write_id, task, first_chunk, partition, -nextval('pgq.run_id'), segment, partitions)
    returning stored_partition_id, 1
    into place;
    return place;
end
$$;

comment on function pgq._run_place(uuid, integer, integer, integer, integer, integer, integer) is
'Returns the extent and offset at which the next messages of a task for a partition are staged:
after its earlier ones, or in a new extent.';
