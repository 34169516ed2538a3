create function pgq._forget_published(bulk_write_id bigint, most integer)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    removed integer;
begin
    -- As in _forget_staged: an old snapshot does not show all chunks.
    if pgq._keeps_snapshot() then
        return null;
    end if;

    perform
    from pgq.published_write as g
    where g.bulk_write_id = _forget_published.bulk_write_id
    for update skip locked;

    if not found then
        return null;
    end if;

    -- By ctid, which is stable while the marker is locked: a join gets bad plans while statistics
    -- are missing.
    delete from pgq.published_chunk as p
    where p.ctid = any(
        array(
            select f.ctid
            from pgq.published_chunk as f
            where f.bulk_write_id = _forget_published.bulk_write_id
            limit most
        )
    );

    get diagnostics removed = row_count;
    if removed = most then
        return removed;
    end if;

    delete from pgq.published_write as g where g.bulk_write_id = _forget_published.bulk_write_id;

    return removed;
end
$$;

comment on function pgq._forget_published(bigint, integer) is
'Removes the records of the chunks that a bulk write published; otherwise like _forget_staged.';
