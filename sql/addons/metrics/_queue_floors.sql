create function pgq._queue_floors(queue_id bigint)
returns table (priority smallint, floor_time timestamptz)
language sql stable parallel safe
as $$
select p.priority::smallint, coalesce(f.floor_times[p.priority + 1], '-infinity')
from generate_series(0, 9) as p (priority)
left join lateral (
    select n.floor_times
    from pgq.queue_floor as n
    where n.queue_id = _queue_floors.queue_id and n.label = ''
    order by n.seq desc
    limit 1
) as f on true
$$;

comment on function pgq._queue_floors(bigint) is
'The low-water mark (floor) of each priority of a queue: claims look for jobs from this time on.';
