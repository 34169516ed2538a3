-- Rows are updated every few seconds. No index but the primary key, and half of each page free, so
-- that updates are HOT: the new version stays on the page of the old one.
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
    beat interval,
    primary key (role, worker)
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

comment on table pgq.worker is 'Processes that work on jobs or messages and send heartbeats.';
comment on column pgq.worker.role is 'The role that sends its heartbeats.';
comment on column pgq.worker.worker is 'Its name, unique within the role.';
comment on column pgq.worker.kind is 'Its kind: worker, consumer, push, or a name that it gives.';
comment on column pgq.worker.host is 'The machine that it runs on; null: not given.';
comment on column pgq.worker.pid is 'Its process id there; null: not given.';
comment on column pgq.worker.sources is 'The queues or topics that it works on.';
comment on column pgq.worker.running is
'How many jobs or messages it was working on at its last heartbeat.';
comment on column pgq.worker.details is 'Other data of the worker, as JSON; null: none.';
comment on column pgq.worker.started_at is 'When it started.';
comment on column pgq.worker.last_seen_at is 'When it sent its last heartbeat.';
comment on column pgq.worker.beat is
'Time until its next heartbeat at most, as it says; null: unknown.';
