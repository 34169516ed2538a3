-- Heartbeats of workers.
create table pgq.worker (
    role text collate "C" not null,
    worker text collate "C" not null,
    kind text collate "C" not null,
    host text,
    pid integer,
    sources text[] not null,
    running integer not null,
    details jsonb,
    started_at timestamptz not null,
    last_seen_at timestamptz not null,
    primary key (role, worker)
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Metrics.
create type pgq.metric as (
    name text,
    type text,
    help text,
    labels jsonb,
    value double precision
);

create domain pgq."text/plain" as text;

create type pgq._sample as (
    name text,
    labels jsonb,
    value double precision
);

create type pgq._job_figures as (
    queue_id bigint,
    ready double precision,
    leased double precision,
    delayed double precision,
    waiting double precision,
    expired double precision,
    retrying double precision,
    dead double precision,
    estimated boolean
);

create type pgq._finished_jobs as (
    queue_id bigint,
    finished double precision
);
