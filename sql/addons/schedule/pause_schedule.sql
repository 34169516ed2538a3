create function pgq.pause_schedule(schedule text)
returns setof pgq.schedule_info
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
as $$
begin
    perform pgq._check_schedule_access(schedule collate "C");
    update pgq.schedule as s
    set paused = true
    where s.schedule = pause_schedule.schedule collate "C";

    if not found then
        perform pgq._fail_unknown_schedule(schedule collate "C");
    end if;

    return query select i.* from pgq._schedule_info(schedule collate "C") as i;
end
$$;

comment on function pgq.pause_schedule(text) is
'Pauses a schedule, so that run_schedules skips it until resume_schedule, and returns it.
A paused schedule stays paused. The call waits for a run_schedules that is writing a tick of the
schedule.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';
