create type pgq.schedule_info as (
    schedule text,
    topic text,
    queue text,
    payload jsonb,
    key text,
    headers jsonb,
    cron text,
    every interval,
    time_zone text,
    missed text,
    starts_at timestamptz,
    partition integer,
    priority integer,
    label text,
    body bytea,
    paused boolean,
    next_at timestamptz,
    last_at timestamptz,
    last_error text,
    created_at timestamptz,
    updated_at timestamptz,
    made_by text
);

comment on type pgq.schedule_info is 'A schedule and its settings.';
comment on column pgq.schedule_info.schedule is 'Its name.';
comment on column pgq.schedule_info.queue is 'The queue that gets a job; null: it has a topic.';
comment on column pgq.schedule_info.topic is 'The topic that gets a message; null: it has a queue.';
comment on column pgq.schedule_info.payload is 'What is written, as JSON; null when it has a body.';
comment on column pgq.schedule_info.key is 'The key that is written with it; null: none.';
comment on column pgq.schedule_info.headers is
'The headers that are written beside scheduled_at; null: none.';
comment on column pgq.schedule_info.cron is 'When: a cron expression; null: it has an interval.';
comment on column pgq.schedule_info.every is
'How often, counted from starts_at; null: it has a cron expression.';
comment on column pgq.schedule_info.time_zone is
'The time zone of the cron expression; null: it has an interval.';
comment on column pgq.schedule_info.missed is
'What becomes of ticks that nobody was there to write: skip, one or all.';
comment on column pgq.schedule_info.starts_at is 'It has no tick before.';
comment on column pgq.schedule_info.partition is
'The partition of the topic; null: as publish chooses.';
comment on column pgq.schedule_info.priority is
'The priority of its jobs, 0 (first) to 9 (last); null: it has a topic.';
comment on column pgq.schedule_info.label is 'The label of its jobs; null: none.';
comment on column pgq.schedule_info.body is
'What is written, as raw bytes; null when it has a payload.';
comment on column pgq.schedule_info.paused is 'Whether run_schedules leaves it out for now.';
comment on column pgq.schedule_info.next_at is 'The next tick, or the first one that was missed.';
comment on column pgq.schedule_info.last_at is 'The last tick that was written; null: none yet.';
comment on column pgq.schedule_info.last_error is
'Why the last try to write a tick failed; null: it did not.';
comment on column pgq.schedule_info.created_at is 'When it was made.';
comment on column pgq.schedule_info.updated_at is 'When its settings last changed.';
comment on column pgq.schedule_info.made_by is
'The role that named its target, and whose access it needs; null: the owner of pgq.';

create type pgq.schedule_run as (
    schedule text,
    tick_at timestamptz,
    job_id bigint,
    partition integer,
    log_offset bigint,
    error text
);

comment on type pgq.schedule_run is 'A tick that run_schedules wrote, or could not write.';
comment on column pgq.schedule_run.schedule is 'Whose tick it is.';
comment on column pgq.schedule_run.tick_at is
'The time of the tick, which is in the header scheduled_at.';
comment on column pgq.schedule_run.job_id is 'The job that was enqueued; null: none was.';
comment on column pgq.schedule_run.partition is
'The partition that it was published to; null: it was not.';
comment on column pgq.schedule_run.log_offset is 'Its offset there; null: it was not published.';
comment on column pgq.schedule_run.error is 'Why nothing was written; null: it was.';

create type pgq._cron_times as (
    minutes integer array,
    hours integer array,
    days integer array,
    months integer array,
    weekdays integer array,
    either_day boolean,
    real_time boolean
);

comment on type pgq._cron_times is
'What a cron expression says: numbers in ascending order, Sunday is 0.
either_day: one of day and weekday is enough. real_time: hours that come twice count twice.';
