create function pgq.resume_schedule(schedule text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    update pgq.schedule as s
    set paused = false
    where s.schedule = resume_schedule.schedule collate "C";

    if not found then
        perform pgq._fail_unknown_schedule(resume_schedule.schedule collate "C");
    end if;
end
$$;

comment on function pgq.resume_schedule(text) is
'Has run_schedules write the ticks of a schedule again; nothing changes if it is not paused.
Those that came during the pause were missed: the setting missed says what becomes of them.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';
