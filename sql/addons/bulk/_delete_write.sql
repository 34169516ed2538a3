create function pgq._delete_write(bulk_write_id bigint)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    target pgq.bulk_write;
begin
    select w.*
    into target
    from pgq.bulk_write as w
    where w.bulk_write_id = _delete_write.bulk_write_id
    for update skip locked;

    if target.bulk_write_id is null then
        return false;
    end if;

    -- An open chunk holds the marker. Keep its write: a repeat that has forgotten it would publish
    -- the chunk again.
    if target.committed_at is null and not target.atomic then
        perform
        from pgq.published_write as g
        where g.bulk_write_id = target.bulk_write_id
        for update skip locked;

        if not found then
            return false;
        end if;
    end if;

    delete from pgq.bulk_write as w where w.bulk_write_id = target.bulk_write_id;

    return true;
end
$$;

comment on function pgq._delete_write(bigint) is
'Forgets a bulk write; false when another transaction has locked it.';
