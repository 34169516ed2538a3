create function pgq.list_queues()
returns setof pgq.queue_info
language sql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
select i.*
from pgq.queue as q
cross join lateral pgq._queue_info(q.queue) as i
where not q.restricted or q.queue_id in (select unnest(pgq._visible('queue', 'monitor')))
order by q.queue
$$;

comment on function pgq.list_queues() is
'Returns all queues that the caller may see, with their settings, ordered by name.';
