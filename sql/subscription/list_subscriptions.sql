create function pgq.list_subscriptions()
returns setof pgq.subscription_info
language sql
stable
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
select i.*
from pgq.subscription as s
cross join lateral pgq._subscription_info(s.subscription) as i
inner join pgq.topic as t on t.topic_id = s.topic_id
inner join pgq.queue as q on q.queue_id = s.queue_id
where (
    not t.restricted
    or t.topic_id in (select unnest(pgq._visible('topic', 'monitor')))
)
and (
    not q.restricted
    or q.queue_id in (select unnest(pgq._visible('queue', 'monitor')))
)
order by s.subscription
$$;

comment on function pgq.list_subscriptions() is
'All subscriptions and their settings, by name.';
