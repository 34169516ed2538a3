create function pgq._subscription_info(subscription text)
returns setof pgq.subscription_info
language sql stable parallel safe rows 1
as $$
select s.subscription, t.topic, q.queue, s.filter, s.routing_key, s.created_at, s.made_by
from pgq.subscription as s
inner join pgq.topic as t on t.topic_id = s.topic_id
inner join pgq.queue as q on q.queue_id = s.queue_id
where s.subscription = _subscription_info.subscription
$$;

comment on function pgq._subscription_info(text) is
'A subscription and its settings; no row when the name is unknown.';
