create function pgq._forget_runs(write_id uuid)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- The messages go when their segment is truncated; in a storage class without retention, have
    -- cleanup delete them.
    insert into pgq.dropped_range (partition_id, segment, first_offset, last_offset)
    select r.stored_partition_id, r.segment, 1, 9223372036854775807
    from pgq.staged_run as r
    inner join pgq.segment as g on g.segment = r.segment
    inner join pgq.storage_class as c on c.storage_class_id = g.storage_class_id
    where r.write_id = _forget_runs.write_id and c.retention is null;

    delete from pgq.staged_run as r where r.write_id = _forget_runs.write_id;
end
$$;

comment on function pgq._forget_runs(uuid) is
'Forgets the extents of a write that were not attached to the log. The caller has locked the marker
of the write.';
