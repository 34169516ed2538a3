create function pgq.resume_schedule(schedule text)
returns setof pgq.schedule_info
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
as $$
declare
    resumed pgq.schedule;
begin
    perform pgq._check_schedule_access(schedule collate "C");
    update pgq.schedule as s
    set paused = false
    where s.schedule = resume_schedule.schedule collate "C"
    returning s.*
    into resumed;

    if not found then
        perform pgq._fail_unknown_schedule(schedule collate "C");
    end if;

    perform pgq._touch_target(resumed.topic_id, resumed.queue_id);
    perform pgq._check_schedule_access(schedule collate "C");

    update pgq.schedule as s
    set made_by = pgq._maker()
    from pgq._dependents(
        case when resumed.topic_id is not null then 'topic' else 'queue' end,
        coalesce(resumed.topic_id, resumed.queue_id)
    ) as d
    where s.schedule = resumed.schedule and d.kind = 'schedule' and d.name = s.schedule;

    return query select i.* from pgq._schedule_info(schedule collate "C") as i;
end
$$;

comment on function pgq.resume_schedule(text) is
'Ends the pause of a schedule, so that run_schedules writes its ticks again, and returns it.
A schedule that is not paused does not change. Ticks during the pause were missed: the setting
missed determines how they are treated. If made_by has lost the access that the schedule needs, the
caller is stored as made_by.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';
