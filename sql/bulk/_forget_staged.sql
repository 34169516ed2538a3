create function pgq._forget_staged(write_id uuid, most integer)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    removed integer;
begin
    -- An old snapshot does not show all that is staged.
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

    -- By address, which nobody changes now: a join has bad plans while statistics are missing.
    delete from pgq.staged_chunk as c
    where c.ctid = any(
        array(
            select f.ctid
            from pgq.staged_chunk as f
            where f.write_id = _forget_staged.write_id
            limit _forget_staged.most
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
'Removes what was staged for a bulk write, and returns how many chunks it removed.
most: the most that it may remove; when it removed fewer, nothing is left. Null: nothing was
removed, because transactions with chunks of it are open, or nothing is staged, or under REPEATABLE
READ or SERIALIZABLE; cleanup then removes it. It waits for nobody.';
