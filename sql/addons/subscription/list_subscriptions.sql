create function pgq.list_subscriptions()
returns setof pgq.subscription_info
language sql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
select s.subscription, t.topic, q.queue, s.filter, s.routing_key, s.created_at, s.made_by
from pgq.subscription as s
left join pgq.topic as t
    on t.topic_id = s.topic_id
    and (not t.restricted or t.topic_id in (select unnest(pgq._visible('topic', 'monitor'))))
left join pgq.queue as q
    on q.queue_id = s.queue_id
    and (not q.restricted or q.queue_id in (select unnest(pgq._visible('queue', 'monitor'))))
where num_nonnulls(t.topic, q.queue) = 2
    or pgq._administers(t.topic, null)
    or pgq._administers(null, q.queue)
order by s.subscription
$$;

comment on function pgq.list_subscriptions() is
'Lists subscriptions and their settings, by name.
An admin of a topic or queue also sees subscriptions whose other end is hidden from that admin; the
name of that end is null.';
