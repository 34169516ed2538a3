create function pgq.create_schedule(
    schedule text,
    topic text default null,
    queue text default null,
    payload jsonb default null,
    key text default null,
    headers jsonb default null,
    cron text default null,
    every interval default null,
    time_zone text default null,
    missed text default null,
    starts_at timestamptz default null,
    partition integer default null,
    priority integer default null,
    label text default null,
    body bytea default null
)
returns setof pgq.schedule_info
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    now_at timestamptz := pgq._clock();
    settings pgq.schedule_info;
    existing pgq.schedule_info;
    target_id bigint;
begin
    perform pgq._check_name('schedule', schedule collate "C");

    settings := row(
        schedule, topic, queue, payload, key, headers, cron, every,
        coalesce(time_zone, case when cron is not null then 'UTC' end), coalesce(missed, 'one'),
        coalesce(starts_at, date_trunc('second', now_at)), partition,
        coalesce(priority, case when queue is not null then 0 end), label, body, false, null, null,
        null, now_at, now_at, null
    );

    -- Return an existing schedule without taking locks.
    select i.* into existing from pgq._schedule_info(schedule collate "C") as i;

    if existing.schedule is not null then
        if not exists (
            select
            from pgq.schedule as s
            where s.schedule = create_schedule.schedule collate "C"
                and pgq._sees_schedule(s.made_by, s.topic_id, s.queue_id)
        ) then
            raise exception 'schedule "%" exists already', schedule using errcode = 'MQ005';
        end if;
        -- An old snapshot may show a schedule that was dropped since: then this lock raises 40001.
        if pgq._keeps_snapshot() then
            perform
            from pgq.schedule as s
            where s.schedule = create_schedule.schedule collate "C"
            for key share;
        end if;

        -- Compare contents as text: a JSON null inside them is a value, not an omitted setting.
        perform pgq._check_settings_equal(
            'schedule', schedule,
            jsonb_build_object(
                'topic', topic, 'queue', queue, 'payload', payload::text, 'key', key,
                'headers', headers::text, 'cron', cron, 'every', every, 'time_zone', time_zone,
                'missed', missed, 'starts_at', starts_at, 'partition', partition,
                'priority', priority, 'label', label, 'body', body
            ),
            null,
            to_jsonb(existing) || jsonb_build_object(
                'payload', existing.payload::text, 'headers', existing.headers::text
            ),
            array[row('every', 'interval', null, null, null, null, null)::pgq._setting]
        );
        return next existing;
        return;
    end if;

    perform pgq._check_schedule(settings);
    target_id := pgq._lock_schedule_target(settings.queue, settings.topic, settings.partition);
    perform pgq._check_schedule_size(settings);
    settings.next_at := pgq._next_tick(
        case when settings.cron is not null then pgq._cron_times(settings.cron) end,
        settings.every, settings.time_zone, settings.starts_at,
        coalesce(starts_at - interval '1 microsecond', now_at)
    );
    perform pgq._check_missed(settings, now_at);
    settings.made_by := pgq._maker();

    insert into pgq.schedule (
        schedule, topic, queue, payload, key, headers, cron, every, time_zone, missed, starts_at,
        partition, priority, label, body, paused, next_at, last_at, last_error, created_at,
        updated_at, made_by, due_at, topic_id, queue_id
    )
    values (
        settings.*, settings.next_at, case when settings.topic is not null then target_id end,
        case when settings.queue is not null then target_id end
    )
    on conflict (schedule) do nothing;

    if not found then
        -- Race: another transaction has just created it.
        return query
        select c.*
        from pgq.create_schedule(
            schedule, topic, queue, payload, key, headers, cron, every, time_zone,
            missed, starts_at, partition, priority, label, body
        ) as c;
        return;
    end if;

    return next settings;
end
$$;

comment on function pgq.create_schedule(
    text, text, text, jsonb, text, jsonb, text, interval, text, text, timestamptz, integer, integer,
    text, bytea
) is
'Creates a schedule and returns it; an existing one is returned if it has the settings given.
run_schedules writes each tick: to a queue as a job, to a topic as a message, with payload (JSON) or
body (raw bytes), and with the time of the tick in the header scheduled_at. cron: minute, hour, day
of month, month and day of week, like 30 8 * * MON-FRI, or a name like @daily; its times are those
of time_zone, by default UTC. every: instead of cron, an interval in real time of at least 1 second,
without months, counted from starts_at. missed: how run_schedules treats ticks that were not written
in time: one (it writes the last of them, the default), skip (the same, but not when it is more than
5 minutes late), or all (it writes all of them, at most 1000000000 when the schedule is created).
starts_at: the earliest time of a tick, inclusive; by default now, else a time of the years 1 to
9999. key, headers: those of each message or job; partition, for a topic, and priority and label,
for a queue: as in publish and enqueue. If the topic or queue is dropped, a new one of the same name
gets nothing until alter_schedule names it. Settings that are not given are not compared, so an
application can make this call at each start.
Errors: MQ001 unknown topic, MQ002 unknown queue, MQ005 the schedule exists with other settings than
those given, MQ007 unknown partition, 22004 a required argument is null, or no target, time or
content, 22023 bad name or setting, or the target does not take so large a message, 40001 above READ
COMMITTED when another transaction was first (try again).';
