create function pgq.run_schedules(max_ticks integer default null)
returns setof pgq.schedule_run
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    wanted integer := coalesce(max_ticks, 1000);
    now_at timestamptz := pgq._clock();
    due text[];
    seen boolean[];
    name text;
    shown boolean;
    written pgq.schedule_run;
    problem text;
begin
    perform pgq._check_count('max_ticks', wanted, 1, 100000);

    -- SKIP LOCKED: leave schedules that another caller is writing. Above READ COMMITTED, locking a
    -- row that another transaction has changed since the snapshot raises 40001.
    with locked as materialized (
        select s.schedule
        from pgq.schedule as s
        where s.due_at <= now_at and not s.paused
        order by s.due_at
        limit wanted
        for update skip locked
    )

    select array_agg(l.schedule)
    into due
    from locked as l;

    if due is null then
        return;
    end if;

    -- Deadlock: lock partitions in ascending order, then the keys of ordered queues in ascending
    -- order. Messages for any partition come after those for a fixed one: they take a free one, so
    -- they need not wait.
    select array_agg(o.schedule), array_agg(o.shown)
    into due, seen
    from (
        select s.schedule, pgq._sees_schedule(s.made_by, s.topic_id, s.queue_id) as shown
        from pgq.schedule as s
        left join pgq.queue as q on q.queue = s.queue and q.ordered
        left join pgq.partition as p on p.topic = s.topic and p.partition = 0
        where s.schedule = any(due)
        order by
            s.topic, coalesce(s.partition, pgq._key_partition(s.key, p.partitions)) nulls last,
            q.queue_id nulls first, case when q.ordered then s.key collate "C" end nulls first,
            s.next_at, s.schedule
    ) as o;

    -- Once for all ticks: each call leaves a dead row that the next one would have to pass.
    perform pgq._act_for(true);
    for number in 1 .. cardinality(due) loop
        name := due[number];
        shown := seen[number];
        begin
            -- Share max_ticks: a schedule with many missed ticks must not starve the others.
            for written in
                select r.*
                from pgq._run_schedule(name, now_at, wanted / cardinality(due)) as r
            loop
                if shown then
                    return next written;
                end if;
            end loop;
        exception
            -- Class 22: the message or job is refused, or a subscription cannot be evaluated.
            when data_exception or sqlstate 'MQ001' or sqlstate 'MQ002'
                or sqlstate 'MQ007' or sqlstate 'MQ010'
            then
                problem := format('%s: %s', sqlstate, sqlerrm);
                update pgq.schedule as s
                set due_at = now_at + interval '1 minute', last_error = problem
                where s.schedule = name;

                return query
                select
                    s.schedule, s.next_at, null::bigint, null::integer, null::bigint, s.last_error
                from pgq.schedule as s
                where s.schedule = name and shown;
        end;
    end loop;
    perform pgq._act_for(false);
end
$$;

comment on function pgq.run_schedules(integer) is
'Writes the ticks of all schedules that are due, each tick once, even with several callers.
Call it every minute or more often, from any session; concurrent calls share the work. A tick is
written in the transaction of the call, so commit soon: until then other callers skip the schedules
that this call has found due. At most max_ticks (by default 1000) are written, divided among the due
schedules; the next call continues. If a target was dropped, is full, or refuses the message or job,
the row has the reason in error, and the other schedules continue; the tick is retried a minute
later, and then counts as missed.
Errors: 22023 bad argument, 40001 above READ COMMITTED when another transaction was first (try
again).';
