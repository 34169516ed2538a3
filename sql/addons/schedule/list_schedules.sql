create function pgq.list_schedules(schedule text default null)
returns setof pgq.schedule_info
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
begin
    return query
    select i.*
    from pgq.schedule as s
    cross join lateral pgq._schedule_info(s.schedule) as i
    where s.schedule = coalesce(list_schedules.schedule collate "C", s.schedule)
        and pgq._sees_schedule(s.made_by, s.topic_id, s.queue_id)
    order by s.schedule;

    if not found and schedule is not null then
        perform pgq._fail_unknown_schedule(schedule collate "C");
    end if;
end
$$;

comment on function pgq.list_schedules(text) is
'Lists one schedule, or all by name: settings, next and last tick, and the last error.
Errors: MQ009 unknown schedule.';
