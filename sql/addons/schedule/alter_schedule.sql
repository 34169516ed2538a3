create function pgq.alter_schedule(
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
declare
    before pgq.schedule_info;
    settings pgq.schedule_info;
    retargeted boolean := num_nonnulls(queue, topic) > 0;
    target_id bigint;
begin
    perform pgq._check_schedule_access(schedule collate "C");
    perform
    from pgq.schedule as s
    where s.schedule = alter_schedule.schedule collate "C"
    for no key update;

    if not found then
        perform pgq._fail_unknown_schedule(schedule collate "C");
    end if;

    select i.* into before from pgq._schedule_info(schedule collate "C") as i;

    -- A given setting replaces the other one of its pair, and the settings that belong to that are
    -- removed.
    settings := before;
    if retargeted then
        settings.topic := topic;
        settings.queue := queue;
    end if;
    if num_nonnulls(payload, body) > 0 then
        settings.payload := payload;
        settings.body := body;
    end if;
    if num_nonnulls(cron, every) > 0 then
        settings.cron := cron;
        settings.every := every;
    end if;
    settings.key := coalesce(key, before.key);
    settings.headers := coalesce(headers, before.headers);
    settings.time_zone := coalesce(
        time_zone, case when settings.cron is not null then coalesce(before.time_zone, 'UTC') end
    );
    settings.missed := coalesce(missed, before.missed);
    settings.starts_at := coalesce(starts_at, before.starts_at);
    settings.partition := coalesce(
        partition, case when settings.topic is not null then before.partition end
    );
    settings.priority := coalesce(
        priority, case when settings.queue is not null then coalesce(before.priority, 0) end
    );
    settings.label := coalesce(label, case when settings.queue is not null then before.label end);
    perform pgq._check_schedule(settings);
    if retargeted or partition is not null then
        target_id := pgq._lock_schedule_target(settings.queue, settings.topic, settings.partition);
    end if;
    if retargeted
        or (
            num_nonnulls(payload, key, headers, body) > 0
            -- Its target may have been dropped, and another one have the name.
            and exists (
                select
                from pgq.schedule as s
                left join pgq.topic as t on t.topic_id = s.topic_id
                left join pgq.queue as q on q.queue_id = s.queue_id
                where s.schedule = alter_schedule.schedule collate "C"
                    and (t.topic = settings.topic or q.queue = settings.queue)
            )
        )
    then
        perform pgq._check_schedule_size(settings);
    end if;

    -- Changed times count from now on.
    if (settings.cron, settings.every, settings.time_zone, settings.starts_at)
        is distinct from (before.cron, before.every, before.time_zone, before.starts_at)
    then
        settings.next_at := pgq._next_tick(
            case when settings.cron is not null then pgq._cron_times(settings.cron) end,
            settings.every, settings.time_zone, settings.starts_at, pgq._clock()
        );
    end if;

    if before.missed <> 'all' then
        perform pgq._check_missed(settings, pgq._clock());
    end if;

    settings.updated_at := pgq._clock();
    if retargeted then
        settings.made_by := pgq._maker();
    end if;

    update pgq.schedule as s
    set
        (
            schedule, topic, queue, payload, key, headers, cron, every, time_zone, missed,
            starts_at, partition, priority, label, body, paused, next_at, last_at, last_error,
            created_at, updated_at, made_by
        ) = row(settings.*),
        due_at = settings.next_at,
        topic_id = case
            when not retargeted then s.topic_id when settings.topic is not null then target_id
        end,
        queue_id = case
            when not retargeted then s.queue_id when settings.queue is not null then target_id
        end
    where s.schedule = alter_schedule.schedule collate "C";

    return next settings;
end
$$;

comment on function pgq.alter_schedule(
    text, text, text, jsonb, text, jsonb, text, interval, text, text, timestamptz, integer, integer,
    text, bytea
) is
'Changes settings of a schedule and returns it; null leaves a setting as it is.
See create_schedule for the settings. Of queue and topic, cron and every, payload and body, the one
given replaces the other. A caller that names a topic or queue, even the same one, is stored as
made_by: from then on the schedule depends on the access of that role, and writes to the topic or
queue that has this name now. When cron, every, time_zone or starts_at changes, earlier ticks that
are not written yet are skipped. The call waits for a run_schedules that is writing a tick of the
schedule.
Errors: MQ001 unknown topic, MQ002 unknown queue, MQ007 unknown partition, MQ009 unknown schedule,
22004 a required argument is null, 22023 bad settings, 40001 above READ COMMITTED when another
transaction was first (try again).';
