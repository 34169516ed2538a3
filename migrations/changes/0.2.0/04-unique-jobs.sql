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
