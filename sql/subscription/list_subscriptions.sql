create function pgq.list_subscriptions()
returns setof pgq.subscription_info
language sql
stable
parallel safe
security definer
set search_path = pgq, pg_temp
as $$
select i.*
from pgq.subscription as s
cross join lateral pgq._subscription_info(s.subscription) as i
order by s.subscription
$$;

comment on function pgq.list_subscriptions() is
'All subscriptions and their settings, by name.';
