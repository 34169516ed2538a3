-- Effects of jobs, and schedules.
create type pgq.effect_state as (
    state text,
    result jsonb,
    attempt integer,
    begun_at timestamptz
);

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
    updated_at timestamptz
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

create table pgq.effect (
    job_id bigint not null,
    effect text collate "C" not null,
    lease_token uuid not null,
    attempt integer not null,
    begun_at timestamptz not null,
    finished_at timestamptz,
    result jsonb,
    primary key (job_id, effect)
);

create sequence pgq.effect_walk as bigint minvalue 0;

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
    updated_at timestamptz not null
);

create index schedule_due on pgq.schedule (due_at) where not paused;

-- Unique jobs, and jobs with a max_attempts of their own.
alter table pgq.queue add column unique_until text collate "C" not null default 'finished';

alter type pgq.queue_info add attribute unique_until text;

alter table pgq.job
add column unique_key text collate "C",
add column max_attempts integer;

alter table pgq.dead_job
add column unique_key text collate "C",
add column max_attempts integer;

create table pgq.unique_job (
    queue_id bigint not null,
    unique_key text collate "C" not null,
    job_id bigint not null,
    primary key (queue_id, unique_key)
);

create index unique_job_id on pgq.unique_job (job_id);

create type pgq.job_info as (
    job_id bigint,
    queue text,
    state text,
    priority integer,
    attempt integer,
    max_attempts integer,
    enqueued_at timestamptz,
    due_at timestamptz,
    leased_until timestamptz,
    expires_at timestamptz,
    died_at timestamptz,
    label text,
    unique_key text,
    last_error text,
    key text,
    headers jsonb,
    payload jsonb,
    body bytea
);
