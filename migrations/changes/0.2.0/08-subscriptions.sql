-- Subscriptions.
alter table pgq.partition rename column notify to followed;

alter type pgq._partition_state rename attribute notify to followed;

alter table pgq.queue add column subscribed boolean not null default false;

create table pgq.job_run (
    queue_id bigint not null,
    visible_at timestamptz not null,
    run_id bigint not null,
    partition_id bigint not null,
    first_offset bigint not null,
    expires_at timestamptz,
    segment integer not null,
    jobs integer not null,
    places smallint[],
    primary key (queue_id, visible_at, run_id)
)
with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create table pgq.subscription (
    subscription text collate "C" primary key,
    topic_id bigint not null references pgq.topic (topic_id) on delete cascade,
    queue_id bigint not null references pgq.queue (queue_id) on delete cascade,
    filter jsonb,
    routing_key text collate "C",
    routing_regex text collate "C",
    created_at timestamptz not null,
    made_by text collate "C",
    unique (topic_id, queue_id)
);

create index subscription_queue on pgq.subscription (queue_id);

create type pgq.subscription_info as (
    subscription text,
    topic text,
    queue text,
    filter jsonb,
    routing_key text,
    created_at timestamptz,
    made_by text
);
