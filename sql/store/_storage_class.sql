create function pgq._storage_class(retention interval, max_bytes bigint, owner_id bigint)
returns pgq.storage_class
language plpgsql volatile parallel unsafe
as $$
declare
    class pgq.storage_class;
begin
    -- Repeat when cleanup deletes an unused class between two statements.
    while class.storage_class_id is null loop
        -- FOR SHARE keeps the segment open until the transaction ends. Above READ COMMITTED, a
        -- class that has moved to another segment since the snapshot raises 40001.
        begin
            select c.*
            into class
            from pgq.storage_class as c
            where
                coalesce(interval_send(c.retention), ''::bytea)
                = coalesce(interval_send(_storage_class.retention), ''::bytea)
                and coalesce(c.owner_id, 0) = coalesce(_storage_class.owner_id, 0)
            for share;

            -- Roll back to release the share lock: transactions that upgrade it would deadlock.
            if class.segment is null or class.max_bytes is distinct from max_bytes then
                raise exception 'the storage class is no longer in use' using errcode = '55P03';
            end if;
            exit;
        exception
            when lock_not_available then
                null;
        end;

        insert into pgq.storage_class (retention, max_bytes, owner_id)
        values (retention, max_bytes, owner_id)
        on conflict do nothing;

        select c.*
        into class
        from pgq.storage_class as c
        where
            coalesce(interval_send(c.retention), ''::bytea)
            = coalesce(interval_send(_storage_class.retention), ''::bytea)
            and coalesce(c.owner_id, 0) = coalesce(_storage_class.owner_id, 0)
        for update;

        if class.storage_class_id is not null and class.segment is null then
            class.segment := pgq._open_segment(class.storage_class_id);
        end if;
    end loop;

    if class.max_bytes is distinct from max_bytes then
        update pgq.storage_class as c
        set max_bytes = _storage_class.max_bytes
        where c.storage_class_id = class.storage_class_id;
        class.max_bytes := max_bytes;
    end if;

    return class;
end
$$;

comment on function pgq._storage_class(interval, bigint, bigint) is
'The storage class for a retention, created on first use together with its first segment. Its open
segment stays open until the transaction ends.';
