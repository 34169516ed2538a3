create function pgq._schedule_info(schedule text)
returns setof pgq.schedule_info
language sql stable parallel safe rows 1
as $$
select
    s.schedule, s.topic, s.queue, s.payload, s.key, s.headers, s.cron, s.every, s.time_zone,
    s.missed, s.starts_at, s.partition, s.priority, s.label, s.body, s.paused, s.next_at, s.last_at,
    s.last_error, s.created_at, s.updated_at, s.made_by
from pgq.schedule as s
where s.schedule = _schedule_info.schedule
$$;

comment on function pgq._schedule_info(text) is
'A schedule and its settings; no row when the name is unknown.';
