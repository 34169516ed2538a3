-- Heartbeats of workers.
create table pgq.worker (
    worker text collate "C" primary key,
    kind text collate "C" not null,
    host text,
    pid integer,
    sources text[] not null,
    running integer not null,
    details jsonb,
    started_at timestamptz not null,
    last_seen_at timestamptz not null
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
