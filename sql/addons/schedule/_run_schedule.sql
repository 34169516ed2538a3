create function pgq._run_schedule(schedule text, now_at timestamptz, max_ticks integer)
returns setof pgq.schedule_run
language plpgsql volatile parallel unsafe
as $$
declare
    target pgq.schedule;
    times pgq._cron_times;
    written pgq.schedule_run;
    following timestamptz;
    tick_headers jsonb;
begin
    -- The caller has locked the row.
    select s.* into target from pgq.schedule as s where s.schedule = _run_schedule.schedule;

    perform pgq._check_schedule_kept(target);
    times := case when target.cron is not null then pgq._cron_times(target.cron) end;

    written.schedule := target.schedule;
    following := target.next_at;
    if target.missed <> 'all' then
        following := pgq._last_tick(
            times, target.every, target.time_zone, target.starts_at, target.next_at, now_at
        );
    end if;

    for n in 1 .. max_ticks loop
        exit when following > now_at;
        written.tick_at := following;
        following := pgq._next_tick(
            times, target.every, target.time_zone, target.starts_at, written.tick_at
        );
        -- After repair_clock last_at may be later than next_at: do not write that tick again.
        continue when written.tick_at = target.last_at
            or (target.missed = 'skip' and written.tick_at < now_at - interval '5 minutes');

        tick_headers := coalesce(target.headers, '{}') || jsonb_build_object(
            'scheduled_at', (to_jsonb(written.tick_at at time zone 'UTC') #>> '{}') || '+00:00'
        );
        if target.queue is not null then
            select e.job_id
            into written.job_id
            from pgq.enqueue(
                queue => target.queue, payload => target.payload, key => target.key,
                headers => tick_headers, priority => target.priority, label => target.label,
                body => target.body
            ) as e;
        else
            select p.partition, p.log_offset
            into written.partition, written.log_offset
            from pgq.publish(
                topic => target.topic, payload => target.payload, key => target.key,
                headers => tick_headers, partition => target.partition, body => target.body
            ) as p;
        end if;
        target.last_at := greatest(target.last_at, written.tick_at);
        target.last_error := null;
        return next written;
    end loop;
    -- Check again: ticks are written by name, and the target may have been dropped meanwhile and
    -- its name given to a new one.
    perform pgq._check_schedule_kept(target);

    -- Fairness: ticks left over by max_ticks go after the other schedules that are due by now.
    update pgq.schedule as s
    set
        next_at = following, due_at = greatest(following, now_at),
        last_at = target.last_at, last_error = target.last_error
    where s.schedule = target.schedule;
end
$$;

comment on function pgq._run_schedule(text, timestamptz, integer) is
'Writes the ticks of a schedule that are due at a moment, at most max_ticks, and updates its next
tick.';
