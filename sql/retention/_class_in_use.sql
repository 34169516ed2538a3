create function pgq._class_in_use(storage_class_id bigint)
returns boolean
language plpgsql volatile parallel unsafe
as $$
begin
    return exists (
        select from pgq.topic as t where t.storage_class_id = _class_in_use.storage_class_id
    ) or exists (
        select from pgq.queue as q where q.storage_class_id = _class_in_use.storage_class_id
    ) or exists (
        -- A class for keys stays as long as there is a window of this tier. Look for keys as well:
        -- the first call that stores one does not set for_keys, since a lock on the row would block
        -- others.
        select
        from pgq.storage_class as c
        where c.storage_class_id = _class_in_use.storage_class_id
            and c.owner_id is null
            and (c.for_keys or pgq._has_keys(c.segment))
            and (
                exists (
                    select
                    from pgq.topic as t
                    where interval_send(pgq._key_tier(t.idempotency_window))
                        = interval_send(c.retention)
                )
                or exists (
                    select
                    from pgq.queue as q
                    where interval_send(pgq._key_tier(q.idempotency_window))
                        = interval_send(c.retention)
                )
                or exists (
                    select
                    from pgq.former_window as f
                    where interval_send(f.tier) = interval_send(c.retention)
                )
            )
    );
end
$$;

comment on function pgq._class_in_use(bigint) is
'Whether a topic or a queue keeps its messages, or its idempotency keys, in a storage class.';
