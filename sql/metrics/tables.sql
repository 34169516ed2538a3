-- A row is written every few seconds. There is no index but that of its key, and half of each page
-- is left free, so the new version of a row stands on the page of the old one.
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

comment on table pgq.worker is
'Processes that do jobs or handle messages, as they have told of themselves by heartbeat.';
comment on column pgq.worker.role is 'The role that sends its heartbeats.';
comment on column pgq.worker.worker is 'Its name, which no other worker of the role has.';
comment on column pgq.worker.kind is 'What it is: worker, consumer, push, or what it says.';
comment on column pgq.worker.host is 'The machine that it runs on; null: it did not say.';
comment on column pgq.worker.pid is 'Its process there; null: it did not say.';
comment on column pgq.worker.sources is 'The queues or topics that it works on.';
comment on column pgq.worker.running is 'How many jobs or messages it was working on.';
comment on column pgq.worker.details is 'What else it says of itself; null: nothing.';
comment on column pgq.worker.started_at is 'When it began.';
comment on column pgq.worker.last_seen_at is 'When it last told of itself.';
