create function pgq._run_schedule(schedule text, moment timestamptz, max_ticks integer)
returns setof pgq.schedule_run
language plpgsql volatile parallel unsafe
as $$
declare
    target pgq.schedule;
    times pgq._cron_times;
    run pgq.schedule_run;
    following timestamptz;
    tick_headers jsonb;
begin
    -- The caller has locked the row.
    select s.* into target from pgq.schedule as s where s.schedule = _run_schedule.schedule;

    perform pgq._check_schedule_kept(target);
    times := case when target.cron is not null then pgq._cron_times(target.cron) end;

    run.schedule := target.schedule;
    following := target.next_at;
    if target.missed <> 'all' then
        following := pgq._last_tick(
            times, target.every, target.time_zone, target.starts_at, target.next_at, moment
        );
    end if;

    for n in 1 .. max_ticks loop
        exit when following > moment;
        run.tick_at := following;
        following := pgq._next_tick(
            times, target.every, target.time_zone, target.starts_at, run.tick_at
        );
        -- After repair_clock last_at may be later than next_at: do not write that tick again.
        continue when run.tick_at = target.last_at
            or (target.missed = 'skip' and run.tick_at < moment - interval '5 minutes');

        tick_headers := coalesce(target.headers, '{}') || jsonb_build_object(
            'scheduled_at', (to_jsonb(run.tick_at at time zone 'UTC') #>> '{}') || '+00:00'
        );
        if target.queue is not null then
            select e.job_id
            into run.job_id
            from pgq.enqueue(
                queue => target.queue, payload => target.payload, key => target.key,
                headers => tick_headers, priority => target.priority, label => target.label,
                body => target.body
            ) as e;
        else
            select p.partition, p.log_offset
            into run.partition, run.log_offset
            from pgq.publish(
                topic => target.topic, payload => target.payload, key => target.key,
                headers => tick_headers, partition => target.partition, body => target.body
            ) as p;
        end if;
        target.last_at := greatest(target.last_at, run.tick_at);
        target.last_error := null;
        return next run;
    end loop;
    -- Check again: ticks are written by name, and the target may have been dropped meanwhile and
    -- its name given to a new one.
    perform pgq._check_schedule_kept(target);

    -- Fairness: ticks left over by max_ticks go after the other schedules that are due by now.
    update pgq.schedule as s
    set
        next_at = following, due_at = greatest(following, moment),
        last_at = target.last_at, last_error = target.last_error
    where s.schedule = target.schedule;
end
$$;

comment on function pgq._run_schedule(text, timestamptz, integer) is
'Writes the ticks of a schedule that are due at a moment, at most max_ticks, and updates its next
tick.';
