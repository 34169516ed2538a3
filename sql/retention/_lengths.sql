create function pgq._lengths()
returns text[]
language sql stable parallel safe
as $$
select array_agg(coalesce(u.length::text, 'no limit') order by u.length)
from (
    select distinct on (interval_send(l.length)) l.length
    from (
        select c.retention as length
        from pgq.storage_class as c
        where c.owner_id is null
        union all
        select pgq._key_tier(t.idempotency_window)
        from pgq.topic as t
        union all
        select pgq._key_tier(q.idempotency_window)
        from pgq.queue as q
    ) as l
) as u
$$;

comment on function pgq._lengths() is
'The different retentions, and tiers of idempotency windows, of all settings and of storage classes
that still hold data.';
