create function pgq.list_topics()
returns setof pgq.topic_info
language sql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
select i.*
from pgq.topic as t
cross join lateral pgq._topic_info(t.topic) as i
where not t.restricted or t.topic_id in (select unnest(pgq._visible('topic', 'monitor')))
order by t.topic
$$;

comment on function pgq.list_topics() is
'Returns all topics and their settings, by name.';
