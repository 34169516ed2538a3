-- Limits of queues.
alter table pgq.queue
add column max_leased integer,
add column rate_limit integer,
add column rate_interval interval,
add column rate_burst integer,
add column max_unfinished integer;

alter type pgq.queue_info add attribute max_leased integer;
alter type pgq.queue_info add attribute rate_limit integer;
alter type pgq.queue_info add attribute rate_interval interval;
alter type pgq.queue_info add attribute rate_burst integer;
alter type pgq.queue_info add attribute max_unfinished integer;

create table pgq.claim_lock (
    queue_id bigint primary key references pgq.queue (queue_id) on delete cascade,
    counted_xid xid8 not null
);

create table pgq.claim_count (
    queue_id bigint not null,
    seq bigint not null,
    first_seq bigint not null,
    leased integer not null,
    job_ids bigint[] not null,
    counted_xid xid8,
    horizon xid8,
    job_cost bigint,
    credit numeric,
    refilled_at timestamptz,
    primary key (queue_id, seq)
);
