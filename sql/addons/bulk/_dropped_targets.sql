create function pgq._dropped_targets()
returns table (topic_id bigint, queue_id bigint)
language sql stable parallel safe
as $$
-- Loose index scan: one index probe per target, not one step per write.
with recursive target as (
    (
        select coalesce(w.topic_id, 0) as topic_id, coalesce(w.queue_id, 0) as queue_id
        from pgq.bulk_write as w
        order by 1, 2
        limit 1
    )
    union all
    select n.topic_id, n.queue_id
    from target as t
    cross join lateral (
        select coalesce(w.topic_id, 0) as topic_id, coalesce(w.queue_id, 0) as queue_id
        from pgq.bulk_write as w
        where (coalesce(w.topic_id, 0), coalesce(w.queue_id, 0)) > (t.topic_id, t.queue_id)
        order by 1, 2
        limit 1
    ) as n
)

select d.topic_id, d.queue_id
from target as d
where not exists (select from pgq.topic as t where t.topic_id = d.topic_id)
    and not exists (select from pgq.queue as q where q.queue_id = d.queue_id)
$$;

comment on function pgq._dropped_targets() is
'The dropped topics and queues that bulk writes still refer to; 0 stands for none.';
