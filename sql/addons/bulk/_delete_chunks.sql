create function pgq._delete_chunks(write_id uuid, bulk_write_id bigint, most integer)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    removed integer;
begin
    -- An old snapshot does not show all chunks.
    if pgq._keeps_snapshot() then
        return null;
    end if;

    -- A write has one of the two markers. Chunks go by ctid, which is stable while the marker is
    -- locked: a join gets bad plans while statistics are missing.
    perform
    from pgq.staged_write as s
    where s.write_id = _delete_chunks.write_id
    for update skip locked;
    if found then
        delete from pgq.staged_chunk as c
        where c.ctid = any(
            array(
                select f.ctid
                from pgq.staged_chunk as f
                where f.write_id = _delete_chunks.write_id
                limit most
            )
        );
    else
        perform
        from pgq.published_write as g
        where g.bulk_write_id = _delete_chunks.bulk_write_id
        for update skip locked;
        if not found then
            return null;
        end if;
        delete from pgq.published_chunk as p
        where p.ctid = any(
            array(
                select f.ctid
                from pgq.published_chunk as f
                where f.bulk_write_id = _delete_chunks.bulk_write_id
                limit most
            )
        );
    end if;
    get diagnostics removed = row_count;
    if removed = most then
        return removed;
    end if;

    -- The messages of extents go when their segment is truncated; in a storage class without
    -- retention, have cleanup delete them.
    insert into pgq.dropped_range (partition_id, segment, first_offset, last_offset)
    select r.stored_partition_id, r.segment, 1, 9223372036854775807
    from pgq.staged_extent as r
    inner join pgq.segment as g on g.segment = r.segment
    inner join pgq.storage_class as c on c.storage_class_id = g.storage_class_id
    where r.write_id = _delete_chunks.write_id and c.retention is null;

    delete from pgq.staged_extent as r where r.write_id = _delete_chunks.write_id;
    delete from pgq.staged_task as k where k.write_id = _delete_chunks.write_id;
    delete from pgq.staged_write as s where s.write_id = _delete_chunks.write_id;
    delete from pgq.published_write as g where g.bulk_write_id = _delete_chunks.bulk_write_id;
    return removed;
end
$$;

comment on function pgq._delete_chunks(uuid, bigint, integer) is
'Removes what a bulk write has staged, or the records of the chunks that it published, and returns
the number of chunks removed.
most: the limit; after fewer, nothing is left. Returns null, and removes nothing, while a
transaction with chunks of the write is open, when there is nothing, and above READ COMMITTED;
cleanup then removes the rest. It never waits for a lock.';
