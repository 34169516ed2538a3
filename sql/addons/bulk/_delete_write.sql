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

    -- An open chunk holds the marker. Keep its write: it is still being written; and if it is not
    -- atomic, a repeat that has forgotten it would publish the chunk again.
    if target.committed_at is null then
        if target.atomic then
            perform from pgq.staged_write as s where s.write_id = target.write_id
            for update skip locked;
        else
            perform
            from pgq.published_write as g
            where g.bulk_write_id = target.bulk_write_id
            for update skip locked;
        end if;

        -- A marker that is lost is not locked.
        if not found
            and (
                not target.atomic
                or exists (select from pgq.staged_write as s where s.write_id = target.write_id)
            )
        then
            return false;
        end if;
    end if;

    delete from pgq.bulk_write as w where w.bulk_write_id = target.bulk_write_id;

    return true;
end
$$;

comment on function pgq._delete_write(bigint) is
'Forgets a bulk write; false when another transaction has locked it, or has an open chunk of it.';
