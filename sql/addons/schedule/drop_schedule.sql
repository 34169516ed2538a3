create function pgq.drop_schedule(schedule text)
returns void
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
begin
    perform pgq._check_schedule_access(schedule collate "C");
    delete from pgq.schedule as s where s.schedule = drop_schedule.schedule collate "C";

    if not found then
        perform pgq._fail_unknown_schedule(schedule collate "C");
    end if;
end
$$;

comment on function pgq.drop_schedule(text) is
'Removes a schedule; the jobs and messages that it has written stay.
The call waits for a run_schedules that is writing a tick of the schedule.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';
