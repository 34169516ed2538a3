create function pgq.next_run()
returns timestamptz
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return (select s.due_at from pgq.schedule as s where not s.paused order by s.due_at limit 1);
end
$$;

comment on function pgq.next_run() is
'Returns when run_schedules next has a tick to write, as long as no schedule is created or changed.
Call run_schedules at that time; a time in the past means now. All schedules count, including those
that are hidden from the caller. Null: there is no schedule, or all are paused.';
