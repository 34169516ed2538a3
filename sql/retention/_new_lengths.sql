create function pgq._new_lengths(wanted interval[])
returns bigint
language sql volatile parallel unsafe
as $$
select count(distinct coalesce(interval_send(w.length), ''::bytea))
from unnest(_new_lengths.wanted) as w (length)
where not exists (
    select
    from pgq.storage_class as c
    where coalesce(interval_send(c.retention), ''::bytea)
        = coalesce(interval_send(w.length), ''::bytea)
        and coalesce(c.owner_id, 0) = 0
    )
    and not exists (
        select
        from pgq.topic as t
        where interval_send(pgq._key_tier(t.idempotency_window)) = interval_send(w.length)
    )
    and not exists (
        select
        from pgq.queue as q
        where interval_send(pgq._key_tier(q.idempotency_window)) = interval_send(w.length)
    )
$$;

comment on function pgq._new_lengths(interval[]) is
'How many of these retentions are new: in no setting and no storage class yet; null: without
limit.';
