create function pgq._storage_class(retention interval, max_bytes bigint, owner_id bigint)
returns bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    found_id bigint;
begin
    -- Again when cleanup removes a class out of use between the two statements.
    while found_id is null loop
        insert into pgq.storage_class (retention, max_bytes, owner_id)
        values (_storage_class.retention, _storage_class.max_bytes, _storage_class.owner_id)
        on conflict do nothing;

        -- The lock is held to the end: two callers must not open a segment for one class.
        select c.storage_class_id
        into found_id
        from pgq.storage_class as c
        where
            coalesce(c.retention, interval '-1 day')
            = coalesce(_storage_class.retention, interval '-1 day')
            and coalesce(c.owner_id, 0) = coalesce(_storage_class.owner_id, 0)
        for update;
    end loop;

    if not exists (
        select from pgq.segment as s
        where s.storage_class_id = found_id
            and s.state = 'open'
    ) then
        perform pgq._open_segment(found_id);
    end if;

    update pgq.storage_class as c
    set max_bytes = _storage_class.max_bytes
    where c.storage_class_id = found_id
        and c.max_bytes is distinct from _storage_class.max_bytes;

    return found_id;
end
$$;

comment on function pgq._storage_class(interval, bigint, bigint) is
'The storage class for a retention, made on first use together with its first segment.';
