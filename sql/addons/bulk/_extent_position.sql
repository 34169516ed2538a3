create function pgq._extent_position(
    write_id uuid, task integer, first_chunk integer, partition integer, segment integer,
    partitions integer, messages integer
)
returns pgq._extent_position
language plpgsql volatile parallel unsafe
as $$
declare
    -- Limit of an extent: readers that share the work divide it by extents.
    most constant integer := 250000;
    extent pgq.staged_extent;
    next_position pgq._extent_position;
begin
    -- Ids are negative and descend: the newest extent has the lowest.
    select r.*
    into extent
    from pgq.staged_extent as r
    where r.write_id = _extent_position.write_id
        and r.task = _extent_position.task
        and r.partition = _extent_position.partition
        and r.first_chunk = _extent_position.first_chunk
    order by r.stored_partition_id
    limit 1;

    if extent.segment = segment and extent.partitions is not distinct from partitions then
        next_position.stored_partition_id := extent.stored_partition_id;
        next_position.next_offset := (
            pgq._newest(extent.stored_partition_id, extent.segment, 1)
        ).log_offset + 1;
        if next_position.next_offset + messages <= most then
            return next_position;
        end if;
    end if;

    insert into pgq.staged_extent (
        write_id, task, first_chunk, partition, stored_partition_id, segment, partitions
    )
    values (write_id, task, first_chunk, partition, -nextval('pgq.extent_id'), segment, partitions)
    returning stored_partition_id, 1
    into next_position;
    return next_position;
end
$$;

comment on function pgq._extent_position(
    uuid, integer, integer, integer, integer, integer, integer
) is
'Returns the extent and offset at which the next messages of a task for a partition are staged:
after its earlier ones, or in a new extent.';
