create function pgq.resume_schedule(schedule text)
returns setof pgq.schedule_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgq._check_schedule_access(resume_schedule.schedule collate "C");
    update pgq.schedule as s
    set paused = false
    where s.schedule = resume_schedule.schedule collate "C";

    if not found then
        perform pgq._fail_unknown_schedule(resume_schedule.schedule collate "C");
    end if;

    return query
    select i.*
    from pgq._schedule_info(resume_schedule.schedule collate "C") as i;
end
$$;

comment on function pgq.resume_schedule(text) is
'Has run_schedules write the ticks of a schedule again, and returns the schedule.
Nothing changes if it is not paused. Ticks that came during the pause were missed: the setting
missed says what becomes of them.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';
