-- A limit per key of queues.
alter table pgq.queue add column max_leased_per_key integer;

alter type pgq.queue_info add attribute max_leased_per_key integer;

alter table pgq.claim_lock
add column keys_xid xid8,
add column keys_horizon xid8;

create table pgq.limited_key (
    queue_id bigint not null,
    limited_key text collate "C" not null,
    seq bigint not null,
    job_ids bigint[] not null,
    parked_from text collate "C",
    primary key (queue_id, limited_key, seq)
);

create type pgq._met_job as (
    place tid,
    segment integer,
    partition_id bigint,
    log_offset bigint,
    job_id bigint,
    priority smallint,
    visible_at timestamptz,
    unique_key text collate "C"
);

create type pgq._chosen_jobs as (
    places tid array,
    leaves integer array,
    unique_ids bigint array,
    job_ids bigint array,
    stamps jsonb
);
