create function pgq._forget_staged(write_id uuid, most integer)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    removed integer;
begin
    -- An old snapshot does not show all staged chunks.
    if pgq._keeps_snapshot() then
        return null;
    end if;

    perform
    from pgq.staged_write as s
    where s.write_id = _forget_staged.write_id
    for update skip locked;

    if not found then
        return null;
    end if;

    -- By ctid, which is stable while the marker is locked: a join gets bad plans while statistics
    -- are missing.
    delete from pgq.staged_chunk as c
    where c.ctid = any(
        array(
            select f.ctid
            from pgq.staged_chunk as f
            where f.write_id = _forget_staged.write_id
            limit most
        )
    );

    get diagnostics removed = row_count;
    if removed = most then
        return removed;
    end if;

    perform pgq._forget_runs(write_id);

    delete from pgq.staged_task as k where k.write_id = _forget_staged.write_id;

    delete from pgq.staged_write as s where s.write_id = _forget_staged.write_id;

    return removed;
end
$$;

comment on function pgq._forget_staged(uuid, integer) is
'Removes the staged data of a bulk write, and returns the number of chunks removed.
most: the limit; after fewer, nothing is left. Returns null, and removes nothing, while a
transaction with chunks of the write is open, when nothing is staged, and above READ COMMITTED;
cleanup then removes the rest. It never waits for a lock.';
