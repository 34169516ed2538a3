-- Schedules.
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

create type pgq.schedule_run as (
    schedule text,
    tick_at timestamptz,
    job_id bigint,
    partition integer,
    log_offset bigint,
    error text
);

create type pgq._cron_times as (
    minutes integer array,
    hours integer array,
    days integer array,
    months integer array,
    weekdays integer array,
    either_day boolean,
    real_time boolean
);

create table pgq.schedule (
    schedule text collate "C" primary key,
    topic text collate "C",
    queue text collate "C",
    payload jsonb,
    key text,
    headers jsonb,
    cron text,
    every interval,
    time_zone text,
    missed text not null,
    starts_at timestamptz not null,
    partition integer,
    priority integer,
    label text,
    body bytea,
    paused boolean not null default false,
    next_at timestamptz not null,
    due_at timestamptz not null,
    last_at timestamptz,
    last_error text,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    topic_id bigint,
    queue_id bigint,
    made_by text collate "C"
);

create index schedule_due on pgq.schedule (due_at) where not paused;
