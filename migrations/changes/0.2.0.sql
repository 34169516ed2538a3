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

-- Idempotency keys.
alter table pgq.storage_class add column for_keys boolean not null default false;
alter table pgq.topic add column idempotency_window interval not null default '1 day';
alter table pgq.queue add column idempotency_window interval not null default '1 day';
alter type pgq.topic_info add attribute idempotency_window interval;
alter type pgq.queue_info add attribute idempotency_window interval;

create type pgq._noted_key as (
    idempotency_key text collate "C",
    noted_at timestamptz,
    job_id bigint,
    partition integer,
    log_offset bigint
);

create type pgq._key_segments as (
    class_ids bigint array,
    segments integer array,
    written integer array
);

create type pgq._key_notes as (
    segments integer array,
    leaders integer array,
    job_ids bigint array,
    partitions integer array,
    log_offsets bigint array
);

create table pgq.idempotency (
    scope_id bigint not null,
    noted_at timestamptz not null,
    job_id bigint,
    log_offset bigint,
    segment integer not null,
    partition integer,
    idempotency_key text collate "C" not null
)
partition by list (segment);

create table pgq.former_window (
    scope_id bigint not null,
    idempotency_window interval not null,
    keep interval not null,
    noted_xid xid8 not null,
    horizon xid8,
    ends_at timestamptz
);

create unique index former_window_key on pgq.former_window
(scope_id, interval_send(idempotency_window));
alter table pgq.former_window replica identity full;

-- A leaf beside each one that there is. Those that were made after the installation are no part of
-- the extension, or a dump would leave out how they were made.
do $leaves$
declare
    leaf integer;
begin
    for leaf in
        select substring(c.relname from '\d+$')::integer
        from pg_inherits as i
        inner join pg_class as c on c.oid = i.inhrelid
        where i.inhparent = 'pgq.message'::regclass
        order by 1
    loop
        execute format(
            'create table pgq.idempotency_%1$s (
                like pgq.idempotency, primary key (scope_id, idempotency_key)
            )',
            leaf
        );
        execute format(
            'alter table pgq.idempotency attach partition pgq.idempotency_%1$s
            for values in (%1$s)',
            leaf
        );
        execute format(
            'comment on table pgq.idempotency_%1$s is ''Segment %1$s of the idempotency keys.''',
            leaf
        );
        if leaf > 15 and exists (select from pg_extension where extname = 'pgq') then
            execute format('alter extension pgq drop table pgq.idempotency_%s', leaf);
        end if;
    end loop;
end
$leaves$;

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

-- Dead-letter topics of consumer groups.
alter table pgq.consumer_group
add column max_attempts integer,
add column dead_letter_topic_id bigint references pgq.topic (topic_id);

alter table pgq.group_partition add column max_attempts integer;

create type pgq._attempts as (
    attempt integer,
    last_error text,
    tried_offset bigint,
    single_offset bigint
);

alter table pgq.group_position add column attempts pgq._attempts;

alter type pgq.group_info
add attribute max_attempts integer,
add attribute dead_letter_topic text;

alter type pgq._group_state
add attribute max_attempts integer,
add attribute attempt integer,
add attribute last_error text,
add attribute tried_offset bigint,
add attribute single_offset bigint;

-- Dead letters of queues, page by page.
create type pgq.dead_letter as (
    queue text,
    job_id bigint,
    attempt integer,
    last_error text,
    enqueued_at timestamptz,
    died_at timestamptz,
    priority integer,
    key text,
    label text,
    headers jsonb,
    payload jsonb,
    body bytea,
    stops_key boolean
);

-- Ordered keys.
alter table pgq.queue
add column ordered boolean not null default false,
add column after_dead_letter text collate "C" not null default 'continue';

alter type pgq.queue_info add attribute ordered boolean;
alter type pgq.queue_info add attribute after_dead_letter text;

alter table pgq.job
add column ordered_key text collate "C",
add column due_at timestamptz;

-- The index is partial, and no row has a key yet: it takes one look at the jobs.
create index job_ordered on pgq.job (queue_id, ordered_key, (job_id + 0))
where ordered_key is not null;

alter table pgq.dead_job
add column ordered_key text collate "C",
add column stops_key boolean not null default false;

alter table pgq.queue_floor add column note_floor timestamptz;

create table pgq.ordered_key (
    queue_id bigint not null,
    ordered_key text collate "C" not null,
    from_id bigint,
    primary key (queue_id, ordered_key)
);

create table pgq.ordered_note (
    queue_id bigint not null,
    look_at timestamptz not null,
    ordered_key text collate "C" not null,
    after_id bigint not null,
    tries integer not null,
    primary key (queue_id, look_at, ordered_key, after_id)
);

create type pgq._ended_job as (
    job_id bigint,
    queue_id bigint,
    unique_key text collate "C",
    ordered_key text collate "C"
);

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
    unique (topic_id, queue_id)
);

create index subscription_queue on pgq.subscription (queue_id);

create type pgq.subscription_info as (
    subscription text,
    topic text,
    queue text,
    filter jsonb,
    routing_key text,
    created_at timestamptz
);

-- Deferred topics.
alter table pgq.topic add column deferred boolean not null default false;

alter table pgq.partition
add column deferred boolean not null default false,
add column left_segments integer[] not null default '{}';

alter type pgq.topic_info add attribute deferred boolean;
alter type pgq._partition_state add attribute deferred boolean;

create table pgq.assignment (
    partition_id bigint not null,
    seq bigint not null,
    next_xid xid8 not null,
    open_xids xid8[] not null,
    server_started timestamptz not null,
    system_identifier bigint not null,
    primary key (partition_id, seq)
);

create sequence pgq.staged_number as bigint;

create type pgq._staged_since as (
    seq bigint,
    lowest bigint,
    late_xids xid8 array,
    next_xid xid8,
    open_xids xid8 array,
    system_identifier bigint
);

-- pages of dead letters that died in one moment
drop index pgq.dead_job_queue;
create index dead_job_queue on pgq.dead_job (queue_id, died_at, job_id);

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

-- Attempts at messages are told to the member that gets them.
alter type pgq.leased_message add attribute attempt integer;
alter type pgq._claim_state add attribute attempt integer;

-- What no setting asks for costs calls that do a single job less: one column says it.
alter table pgq.queue
add column plain_enqueue boolean not null generated always as (
    not notify and not ordered and max_unfinished is null
) stored,
add column plain_claim boolean not null generated always as (
    not paused
    and not ordered
    and not subscribed
    and max_leased is null
    and max_leased_per_key is null
    and rate_limit is null
) stored;
