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
comment on column pgq.schedule_info.schedule is 'Name of the schedule.';
comment on column pgq.schedule_info.queue is
'The queue that gets a job; null: the target is a topic.';
comment on column pgq.schedule_info.topic is
'The topic that gets a message; null: the target is a queue.';
comment on column pgq.schedule_info.payload is 'The content as JSON; null when it has a body.';
comment on column pgq.schedule_info.key is 'The key of each message or job; null: none.';
comment on column pgq.schedule_info.headers is
'The headers of each message or job, besides scheduled_at; null: none.';
comment on column pgq.schedule_info.cron is 'A cron expression; null: every is set.';
comment on column pgq.schedule_info.every is
'An interval, counted from starts_at; null: cron is set.';
comment on column pgq.schedule_info.time_zone is
'The time zone of the cron expression; null: every is set.';
comment on column pgq.schedule_info.missed is
'How ticks that were not written in time are treated: skip, one or all.';
comment on column pgq.schedule_info.starts_at is 'The earliest time of a tick.';
comment on column pgq.schedule_info.partition is
'The partition of the topic; null: chosen by publish.';
comment on column pgq.schedule_info.priority is
'The priority of its jobs, 0 (first) to 9 (last); null: the target is a topic.';
comment on column pgq.schedule_info.label is 'The label of its jobs; null: none.';
comment on column pgq.schedule_info.body is 'The content as raw bytes; null when it has a payload.';
comment on column pgq.schedule_info.paused is
'True: run_schedules leaves it out until resume_schedule.';
comment on column pgq.schedule_info.next_at is 'The next tick, or the first one that was missed.';
comment on column pgq.schedule_info.last_at is 'The last tick that was written; null: none yet.';
comment on column pgq.schedule_info.last_error is
'The error of the last attempt to write a tick; null: it succeeded.';
comment on column pgq.schedule_info.created_at is 'Time of creation.';
comment on column pgq.schedule_info.updated_at is 'Time of the last change of its settings.';
comment on column pgq.schedule_info.made_by is
'The role that named its target, whose access it depends on; null: the owner of pgq.';

create type pgq.schedule_run as (
    schedule text,
    tick_at timestamptz,
    job_id bigint,
    partition integer,
    log_offset bigint,
    error text
);

comment on type pgq.schedule_run is 'A tick that run_schedules wrote, or could not write.';
comment on column pgq.schedule_run.schedule is 'Name of the schedule.';
comment on column pgq.schedule_run.tick_at is
'The time of the tick, which is in the header scheduled_at.';
comment on column pgq.schedule_run.job_id is 'The job that was enqueued; null: none.';
comment on column pgq.schedule_run.partition is
'The partition of the published message; null: none was published.';
comment on column pgq.schedule_run.log_offset is
'The offset of the published message; null: none was published.';
comment on column pgq.schedule_run.error is
'The reason why nothing was written; null: the tick was written.';

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
'A parsed cron expression: numbers in ascending order, Sunday is 0.
either_day: a match of day or weekday is enough. real_time: hours that come twice count twice.';
