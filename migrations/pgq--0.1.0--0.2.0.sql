\echo Upgrading pgq to 0.2.0 \set ON_ERROR_STOP on
-- generated from sql/ and migrations/changes/0.2.0.sql by python/tools/upgrade.py: edit there, not here

-- Stop before anything is changed where this is not the way to go. The setting lasts as long as the
-- transaction: outside of one, the next statement does not find it.
set local pgq.upgrade = '0.2.0';

do $guard$
declare
    owner_name text := (
        select pg_get_userbyid(n.nspowner)
        from pg_namespace as n
        where n.nspname = 'pgq'
    );
begin
    if current_setting('pgq.upgrade', true) is distinct from '0.2.0' then
        raise exception 'an upgrade has to be one transaction'
            using errcode = '25P01',
                hint = 'Run it by psql -1.';
    end if;
    if pgq.version() <> '0.1.0' then
        raise exception 'this leads from pgq 0.1.0 to 0.2.0, and here is %', pgq.version()
            using errcode = '55000';
    end if;
    -- While an extension is updated, it has the new version already.
    if exists (select from pg_extension where extname = 'pgq' and extversion <> '0.2.0') then
        raise exception 'pgq is installed as an extension in this database'
            using errcode = '55000',
                hint = 'Run alter extension pgq update instead.';
    end if;
    -- What another role made would be another role's, and would run with its rights.
    if owner_name <> current_user then
        raise exception 'only the owner of pgq, %, can upgrade it', owner_name
            using errcode = '42501',
                hint = format('Run set role %I before.', owner_name);
    end if;
end
$guard$;

-- What others were granted on all that is made anew. They get it back when the transaction ends;
-- what is open to all by the installation is granted below.
insert into pgq.kept_grant (statement)
select distinct format(
    'grant %s%s on %s pgq.%I to %s%s',
    k.privilege_type,
    ' (' || quote_ident(k.column_name) || ')',
    k.kind,
    k.name,
    case when k.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(k.grantee)) end,
    case when k.is_grantable then ' with grant option' end
)
from (
    select 'function' as kind, p.proname as name, null::name as column_name, x.*
    from pg_proc as p
    cross join aclexplode(p.proacl) as x
    where p.pronamespace = 'pgq'::regnamespace
        and x.grantee <> p.proowner
    union all
    select 'table', c.relname, null, x.*
    from pg_class as c
    cross join aclexplode(c.relacl) as x
    where c.relnamespace = 'pgq'::regnamespace
        and x.grantee <> c.relowner
    union all
    select 'table', c.relname, a.attname, x.*
    from pg_class as c
    inner join pg_attribute as a on a.attrelid = c.oid
    cross join aclexplode(a.attacl) as x
    where c.relnamespace = 'pgq'::regnamespace
        and x.grantee <> c.relowner
) as k
where k.name = any ('{_bury, _carry_jobs, _check_group, _check_topic_settings, _has_jobs, _jobs_of_segment, _lock_partition, _nack, alter_group, alter_queue, alter_topic, create_group, create_queue, create_topic, enqueue, enqueue_batch, enqueue_rows, publish, publish_batch, publish_rows, purge_queue, redrive}')
    and (k.grantee <> 0 or k.name <> all ('{}'));

drop view pgq.enqueue_rows;
drop view pgq.publish_rows;

drop function pgq._has_jobs;
drop function pgq._carry_jobs;
drop function pgq._jobs_of_segment;
drop function pgq.redrive;
drop function pgq._nack;
drop function pgq._bury;
drop function pgq.enqueue_batch;
drop function pgq.enqueue;
drop function pgq.purge_queue;
drop function pgq.alter_queue;
drop function pgq.create_queue;
drop function pgq.publish;
drop function pgq.publish_batch;
drop function pgq._lock_partition;
drop function pgq.alter_group;
drop function pgq.create_group;
drop function pgq.alter_topic;
drop function pgq.create_topic;
drop function pgq._check_topic_settings;
drop function pgq._check_group;

-- ==== migrations/changes/0.2.0.sql

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

alter table pgq.group_position
add column attempt integer,
add column last_error text,
add column tried_offset bigint,
add column single_offset bigint;

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
    primary key (queue_id, look_at, ordered_key)
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
    ids bigint array,
    next_xid xid8,
    open_xids xid8 array,
    system_identifier bigint
);

-- ==== sql/

comment on schema pgq is
'Messaging inside PostgreSQL: topics with consumer groups, queues of leased jobs, schedules.
Every function takes named arguments; errors carry an SQLSTATE of PostgreSQL or of class MQ.';

comment on type pgq._noted_key is 'An idempotency key, and the job or message that it stands for.';

comment on type pgq._key_segments is
'Where the keys of a queue or topic stand: in these segments of these classes; new ones are written
to some of them.';

comment on type pgq._key_notes is
'What became of the keys of a batch: to which segments the new ones were written; for each place its
own number if it is new, that of the place that has the same key, or -n for the nth of those that
were found; and what these stand for.';

comment on column pgq.topic_info.idempotency_window is
'How long an idempotency key stands for the message that it was given with.';

comment on column pgq.topic_info.deferred is
'Whether messages get their offsets not when they are published, but when somebody consumes.';

comment on column pgq.group_info.max_attempts is
'Attempts before a message goes to the dead-letter topic; null: no limit.';

comment on column pgq.group_info.dead_letter_topic is
'Where it goes; null where there is no limit.';

comment on type pgq.publish_result is 'Where a message stands that was published, now or before.';

comment on column pgq.publish_result.duplicate is
'Whether it had been published before, with the same idempotency key, and stands there since then.';

comment on column pgq.publish_batch_result.duplicate is
'Whether they had been published before, with the same idempotency keys, and stand there since
then.';

comment on column pgq.leased_message.lease_token is
'What commit_offset, extend_poll, release_poll and nack_offsets ask for.';

comment on type pgq._staged_since is
'Where the messages of a partition stand that were staged since offsets were given last: in rows
whose partition_id is lowest or more, or one of ids; and what to note when they have theirs.';

comment on column pgq.queue_info.archive is
'Whether a job that ack finishes, or that expires or is cancelled, is noted among the archived
ones.';

comment on column pgq.queue_info.idempotency_window is
'How long an idempotency key stands for the job that it was given with.';

comment on column pgq.queue_info.unique_until is
'How long a job keeps others of its unique_key out: until it is finished, claimed or removed.';

comment on column pgq.queue_info.ordered is
'Whether the jobs of one key are handed out one at a time, in the order of their commits.';

comment on column pgq.queue_info.after_dead_letter is
'What the jobs of a key do when one of them is dead: continue or stop.';

comment on column pgq.queue_info.max_leased is
'The most jobs that are leased at one time; null: no limit.';

comment on column pgq.queue_info.rate_limit is
'The most jobs that are handed out per rate_interval; null: no limit.';

comment on column pgq.queue_info.rate_interval is 'See rate_limit; null: there is none.';

comment on column pgq.queue_info.rate_burst is
'The most jobs that are handed out at once after a pause; null: there is no rate_limit.';

comment on column pgq.queue_info.max_unfinished is
'With how many unfinished jobs enqueue fails; null: no limit.';

comment on column pgq.claimed_job.lease_token is
'What ack, nack, release_job, reject_job, archive_job and extend_lease ask for; one token for all
jobs of a claim.';

comment on type pgq.job_info is 'A job that is not finished, or a dead letter.';

comment on column pgq.job_info.job_id is 'Its id.';

comment on column pgq.job_info.queue is 'Its queue.';

comment on column pgq.job_info.state is
'ready, leased, delayed, waiting, expired or dead; see queue_stats.';

comment on column pgq.job_info.priority is '0 (first) to 9 (last).';

comment on column pgq.job_info.attempt is 'How many attempts it had, with the one under way.';

comment on column pgq.job_info.max_attempts is 'Attempts before it is dead; null: no limit.';

comment on column pgq.job_info.enqueued_at is 'When it was enqueued.';

comment on column pgq.job_info.due_at is
'From when on it may be claimed; null: a worker has it, or it is dead.';

comment on column pgq.job_info.leased_until is
'When another worker may get it; null: no worker has it.';

comment on column pgq.job_info.expires_at is
'From then on it is never claimed; null: no such time.';

comment on column pgq.job_info.died_at is 'When it became a dead letter; null: it is none.';

comment on column pgq.job_info.label is 'Its label; null: none.';

comment on column pgq.job_info.unique_key is 'Its unique_key; null: none.';

comment on column pgq.job_info.last_error is 'The error of the last nack; null: none.';

comment on column pgq.job_info.key is 'Its key; null: none.';

comment on column pgq.job_info.headers is 'Its headers, a JSON object; null: none.';

comment on column pgq.job_info.payload is 'Its content as JSON; null when it has a body.';

comment on column pgq.job_info.body is 'Its content as raw bytes; null when it has a payload.';

comment on type pgq.enqueue_result is 'A job that was enqueued, now or before.';

comment on column pgq.enqueue_result.duplicate is
'Whether nothing was added: this job had been enqueued before.';

comment on type pgq.effect_state is 'What has become of an effect of a job.';

comment on column pgq.effect_state.state is
'begun: run it now; finished: it has happened; interrupted: it was begun before, and nobody knows
whether it has happened.';

comment on column pgq.effect_state.result is 'What finish_effect was given; null: nothing.';

comment on column pgq.effect_state.attempt is 'Which attempt of the job began it.';

comment on column pgq.effect_state.begun_at is 'When that was.';

comment on type pgq.dead_letter is 'A job that was given up after its last attempt.';

comment on column pgq.dead_letter.queue is 'The queue.';

comment on column pgq.dead_letter.job_id is 'The id of the job.';

comment on column pgq.dead_letter.attempt is 'How many attempts it had.';

comment on column pgq.dead_letter.last_error is
'What the last nack said; if the lease of the last attempt ran out, that in a line of its own.';

comment on column pgq.dead_letter.enqueued_at is 'When it was enqueued.';

comment on column pgq.dead_letter.died_at is 'When it became a dead letter.';

comment on column pgq.dead_letter.priority is '0 (first) to 9 (last).';

comment on column pgq.dead_letter.key is 'Its key; null: none.';

comment on column pgq.dead_letter.label is 'Its label; null: none.';

comment on column pgq.dead_letter.headers is 'Its headers, a JSON object; null: none.';

comment on column pgq.dead_letter.payload is 'Its content as JSON; null when it has a body.';

comment on column pgq.dead_letter.body is 'Its content as raw bytes; null when it has a payload.';

comment on column pgq.dead_letter.stops_key is
'Whether the jobs of its key wait until it is redriven or removed; see create_queue.';

comment on type pgq._ended_job is 'A job that has ended, and what it lets go of.';

comment on column pgq._ended_job.job_id is 'The job.';

comment on column pgq._ended_job.queue_id is 'Its queue.';

comment on column pgq._ended_job.unique_key is 'The key that it frees; null: none.';

comment on column pgq._ended_job.ordered_key is
'The key whose next job may come up; null: none, or the job waited itself.';

comment on type pgq.subscription_info is 'A subscription and its settings.';

comment on column pgq.subscription_info.subscription is 'Its name.';

comment on column pgq.subscription_info.topic is 'The topic whose messages it takes.';

comment on column pgq.subscription_info.queue is 'The queue that gets a job for each of them.';

comment on column pgq.subscription_info.filter is
'For names of headers the values that each may have; null: any message.';

comment on column pgq.subscription_info.routing_key is
'The pattern that the header routing_key has to match; null: any message.';

comment on column pgq.subscription_info.created_at is 'When it was made.';

comment on type pgq.schedule_info is 'A schedule and its settings.';

comment on column pgq.schedule_info.schedule is 'Its name.';

comment on column pgq.schedule_info.queue is 'The queue that gets a job; null: it has a topic.';

comment on column pgq.schedule_info.topic is 'The topic that gets a message; null: it has a queue.';

comment on column pgq.schedule_info.payload is 'What is written, as JSON; null when it has a body.';

comment on column pgq.schedule_info.key is 'The key that is written with it; null: none.';

comment on column pgq.schedule_info.headers is
'The headers that are written beside scheduled_at; null: none.';

comment on column pgq.schedule_info.cron is 'When: a cron expression; null: it has an interval.';

comment on column pgq.schedule_info.every is
'How often, counted from starts_at; null: it has a cron expression.';

comment on column pgq.schedule_info.time_zone is
'The time zone of the cron expression; null: it has an interval.';

comment on column pgq.schedule_info.missed is
'What becomes of ticks that nobody was there to write: skip, one or all.';

comment on column pgq.schedule_info.starts_at is 'It has no tick before.';

comment on column pgq.schedule_info.partition is
'The partition of the topic; null: as publish chooses.';

comment on column pgq.schedule_info.priority is
'The priority of its jobs, 0 (first) to 9 (last); null: it has a topic.';

comment on column pgq.schedule_info.label is 'The label of its jobs; null: none.';

comment on column pgq.schedule_info.body is
'What is written, as raw bytes; null when it has a payload.';

comment on column pgq.schedule_info.paused is 'Whether run_schedules leaves it out for now.';

comment on column pgq.schedule_info.next_at is 'The next tick, or the first one that was missed.';

comment on column pgq.schedule_info.last_at is 'The last tick that was written; null: none yet.';

comment on column pgq.schedule_info.last_error is
'Why the last try to write a tick failed; null: it did not.';

comment on column pgq.schedule_info.created_at is 'When it was made.';

comment on column pgq.schedule_info.updated_at is 'When its settings last changed.';

comment on type pgq.schedule_run is 'A tick that run_schedules wrote, or could not write.';

comment on column pgq.schedule_run.schedule is 'Whose tick it is.';

comment on column pgq.schedule_run.tick_at is
'The time of the tick, which is in the header scheduled_at.';

comment on column pgq.schedule_run.job_id is 'The job that was enqueued; null: none was.';

comment on column pgq.schedule_run.partition is
'The partition that it was published to; null: it was not.';

comment on column pgq.schedule_run.log_offset is 'Its offset there; null: it was not published.';

comment on column pgq.schedule_run.error is 'Why nothing was written; null: it was.';

comment on type pgq._cron_times is
'What a cron expression says: numbers in ascending order, Sunday is 0.
either_day: one of day and weekday is enough. real_time: hours that come twice count twice.';

comment on column pgq.storage_class.for_keys is
'Whether idempotency keys were noted in it: then it stays, as long as there is a window of this
length.';

comment on table pgq.leaf is 'The leaves of message, job_archive and idempotency that there are.
A dump of the extension leaves it out: an installation makes its own, and segment says which of them
are in use.';

comment on column pgq.leaf.leaf is 'Its number: message_N, job_archive_N and idempotency_N.';

comment on table pgq.idempotency is
'Idempotency keys, in segments of the class whose retention is their window; a leaf is truncated
together with the messages of that number. One key may stand in several segments; the row that was
noted last counts.';

comment on column pgq.idempotency.scope_id is
'Where it counts: the partition_id of a queue, or of partition 0 of a topic.';

comment on column pgq.idempotency.noted_at is 'When it was noted; its window counts from here.';

comment on column pgq.idempotency.job_id is 'The job that it was given with; null: a message.';

comment on column pgq.idempotency.log_offset is
'The offset of the message that it was given with; null: a job.';

comment on column pgq.idempotency.segment is 'The leaf that holds it.';

comment on column pgq.idempotency.partition is
'The partition of that message; null: a job. Both are null only within the call that notes it.';

comment on column pgq.idempotency.idempotency_key is 'The key.';

comment on table pgq.former_window is
'Windows that queues and topics had before: keys that were noted then stand in another class.';

comment on column pgq.former_window.scope_id is 'Whose window it was; see idempotency.';

comment on column pgq.former_window.idempotency_window is 'How long it was.';

comment on column pgq.former_window.keep is
'How long such keys may still count: the shorter one of this window and the next.';

comment on column pgq.former_window.noted_xid is 'The transaction that changed it.';

comment on column pgq.former_window.horizon is
'Transactions below this one may still note keys by it; null: cleanup has not found out yet.';

comment on column pgq.former_window.ends_at is
'From then on none of its keys counts any more; null: such transactions may still run.';

comment on column pgq.topic.idempotency_window is
'How long an idempotency key stands for the message that it was given with.';

comment on column pgq.topic.deferred is
'Whether messages are staged when they are published, and get offsets when somebody consumes.';

comment on column pgq.partition.followed is
'Whether somebody is told of a publish: its topic says notify, or has subscriptions.';

comment on column pgq.partition.deferred is
'Whether messages are staged first; then only whoever gives them their offsets locks this row.';

comment on column pgq.partition.left_segments is
'Segments that it wrote to before, where staged messages may still stand; closing one removes it.';

comment on table pgq.assignment is
'Up to where the staged messages of a partition have got their offsets.';

comment on column pgq.assignment.partition_id is 'The partition.';

comment on column pgq.assignment.seq is 'Rises by one each time.';

comment on column pgq.assignment.next_xid is
'What older transactions had published and committed is done.';

comment on column pgq.assignment.open_xids is 'Older transactions that were still open.';

comment on column pgq.assignment.server_started is
'When the server was started. Only when this has changed, system_identifier is looked at.';

comment on column pgq.assignment.system_identifier is
'Which server it was. On another one, after a restore perhaps, ids of transactions mean nothing.';

comment on sequence pgq.staged_number is
'Numbers of publishing calls to deferred topics, in the order of the calls.';

comment on column pgq.consumer_group.max_attempts is
'Attempts before a message goes to the dead-letter topic; null: no limit.';

comment on column pgq.consumer_group.dead_letter_topic_id is
'Where it goes; null where there is no limit.';

comment on column pgq.group_partition.max_attempts is 'What the group says.';

comment on column pgq.group_position.leased_until is
'Until when a member has the partition, or without a token nobody gets it; null: neither.';

comment on column pgq.group_position.attempt is
'How many attempts there were at next_offset, with the one under way; null: none, or they are not
counted.';

comment on column pgq.group_position.last_error is 'How the last of them failed; null: unknown.';

comment on column pgq.group_position.tried_offset is
'The last offset that any of them had; of no meaning below next_offset.';

comment on column pgq.group_position.single_offset is
'Up to this offset messages are given out one by one; of no meaning below next_offset.';

comment on column pgq.queue.archive is
'Whether a job that ack finishes, or that expires or is cancelled, is noted in job_archive.';

comment on column pgq.queue.idempotency_window is
'How long an idempotency key stands for the job that it was given with.';

comment on column pgq.queue.unique_until is
'How long a job keeps others of its unique key out: until it is finished, claimed or removed.';

comment on column pgq.queue.ordered is
'Whether the jobs of one key are handed out one at a time, in the order of their commits.';

comment on column pgq.queue.after_dead_letter is
'What the jobs of a key do when one of them is dead: continue, or stop until that one is redriven or
removed.';

comment on column pgq.queue.max_leased is
'The most jobs that are leased at one time; null: no limit.';

comment on column pgq.queue.rate_limit is
'The most jobs that are handed out per rate_interval; null: no limit.';

comment on column pgq.queue.rate_interval is 'See rate_limit; null: there is none.';

comment on column pgq.queue.rate_burst is
'The most jobs that are handed out at once after a pause; null: there is no rate_limit.';

comment on column pgq.queue.max_unfinished is
'With how many unfinished jobs enqueue fails; null: no limit.';

comment on column pgq.job.last_attempt is
'Whether this attempt is the last one that was allowed when it was claimed.';

comment on column pgq.job.visible_at is
'From when on it may be claimed; infinity: it waits for another one of its key.';

comment on column pgq.job.lease_token is
'The token of the claim that has it; null: never claimed, or given back.';

comment on column pgq.job.unique_key is
'The key of which unique_job allows one job in its queue; null: none.';

comment on column pgq.job.max_attempts is
'Attempts before it is dead; null: what its queue says.';

comment on column pgq.job.ordered_key is
'Its key in an ordered queue; null: none, or the queue is not ordered.';

comment on column pgq.job.due_at is
'From when on it may be claimed once it is the first of its ordered_key; null: it does not wait.';

comment on table pgq.job_run is
'Jobs that were made together and point at messages that follow each other: one row for many jobs,
which get rows of their own when a claim needs them.';

comment on column pgq.job_run.visible_at is 'From when on they may be claimed.';

comment on column pgq.job_run.run_id is
'Its id, of the sequence job_id; of two at one time the lower one goes first.';

comment on column pgq.job_run.partition_id is 'Under which partition_id their payloads are stored.';

comment on column pgq.job_run.first_offset is 'The offset of the first payload.';

comment on column pgq.job_run.expires_at is 'From then on none is claimed; null: no such time.';

comment on column pgq.job_run.segment is 'The segment that holds their payloads.';

comment on column pgq.job_run.jobs is 'How many jobs it stands for.';

comment on column pgq.job_run.places is
'Where their payloads stand, counted from first_offset; null: they have no gaps.';

comment on column pgq.dead_job.unique_key is
'The key that it had as a job; it takes it again when it is redriven.';

comment on column pgq.dead_job.max_attempts is 'See job.';

comment on column pgq.dead_job.ordered_key is 'See job.';

comment on column pgq.dead_job.stops_key is
'Whether the other jobs of its ordered_key wait until it is redriven or removed.';

comment on table pgq.ordered_key is
'The keys of ordered queues that have unfinished jobs; without a row the next job of a key is the
first.';

comment on column pgq.ordered_key.ordered_key is 'The key.';

comment on column pgq.ordered_key.from_id is
'A job that was redriven, and may be the next though its number is lower; null: none.';

comment on table pgq.ordered_note is
'Keys of ordered queues whose next job could not come up yet: an enqueue of the key was under way.';

comment on column pgq.ordered_note.look_at is 'From when on a claim looks for the next.';

comment on column pgq.ordered_note.ordered_key is 'The key.';

comment on column pgq.ordered_note.after_id is 'The job that has ended; the next has a higher id.';

comment on column pgq.ordered_note.tries is 'How often it was looked for in vain.';

comment on table pgq.unique_job is
'Which job has a unique key of a queue, and keeps others of that key out.';

comment on column pgq.unique_job.unique_key is 'The key.';

comment on column pgq.unique_job.job_id is
'The job; a dead letter only where the queue says unique_until removed.';

comment on table pgq.job_archive is
'Jobs that were finished or cancelled or have expired; a leaf is truncated together with the segment
that holds the payloads.';

comment on column pgq.job_archive.ended_at is 'When it was finished or cancelled, or expired.';

comment on column pgq.job_archive.outcome is
'acked, expired, cancelled, or what archive_job was told.';

comment on column pgq.queue_floor.note_floor is
'No ordered_note has a lower look_at; null: the queue is not ordered.';

comment on table pgq.effect is
'Effects of jobs that are to happen once: begun, and what has become of them.';

comment on column pgq.effect.effect is 'Which of the effects of its job.';

comment on column pgq.effect.lease_token is
'The token of whoever began it last, or has said that it happened.';

comment on column pgq.effect.attempt is 'Which attempt of the job began it last.';

comment on column pgq.effect.begun_at is 'When that was.';

comment on column pgq.effect.finished_at is
'When it was noted that it has happened; null: nobody has said so.';

comment on column pgq.effect.result is 'What it has come to; null: nothing, or not known.';

comment on sequence pgq.effect_walk is
'Up to which job cleanup has looked for effects of jobs that have ended; it goes round and round.';

comment on table pgq.claim_lock is
'One row per queue that limits its claims, or did: locked by each of them.';

comment on column pgq.claim_lock.counted_xid is
'Which transaction switched max_leased on last: what was leased before has to be found first.';

comment on table pgq.claim_count is
'What queues that limit their claims have handed out, as a journal. The row with the highest seq
counts.';

comment on column pgq.claim_count.seq is 'Rises by one with every change.';

comment on column pgq.claim_count.first_seq is
'With which row the jobs begin that may still be leased.';

comment on column pgq.claim_count.leased is
'How many these are, at most: those that have ended since count until somebody looks.';

comment on column pgq.claim_count.job_ids is 'Those that this row adds.';

comment on column pgq.claim_count.counted_xid is
'See claim_lock; null: the queue has no max_leased.';

comment on column pgq.claim_count.horizon is
'Once all transactions below this one have ended, what is leased is looked for once more: a claim
that knew no max_leased may have been under way. Null: that is done.';

comment on column pgq.claim_count.job_cost is
'What a job costs: the microseconds of the rate_interval; null: there was no rate_limit yet.';

comment on column pgq.claim_count.credit is
'What there is to spend: each microsecond adds the rate_limit, up to rate_burst jobs.';

comment on column pgq.claim_count.refilled_at is 'Up to when that has been added.';

comment on column pgq.queue.subscribed is
'Whether it may have rows in job_run, at which a claim then looks.';

comment on table pgq.subscription is
'Topics whose messages become jobs of a queue.
A publisher reads it behind the lock of its partition; who changes it writes all partitions of the
topic.';

comment on column pgq.subscription.subscription is 'Its name.';

comment on column pgq.subscription.filter is
'For names of headers the values that each may have; null: any message.';

comment on column pgq.subscription.routing_key is
'The pattern that the header routing_key has to match; null: any message.';

comment on column pgq.subscription.routing_regex is 'The same as a regular expression.';

comment on column pgq.subscription.created_at is 'When it was made.';

comment on table pgq.schedule is
'What is enqueued or published again and again, and when it is next.
The target is kept by its name: one that is dropped and made again gets its ticks again.';

comment on column pgq.schedule.schedule is 'Its name.';

comment on column pgq.schedule.queue is 'The queue that gets a job; null: it has a topic.';

comment on column pgq.schedule.topic is 'The topic that gets a message; null: it has a queue.';

comment on column pgq.schedule.cron is 'A cron expression; null: it has an interval.';

comment on column pgq.schedule.every is 'An interval; null: it has a cron expression.';

comment on column pgq.schedule.time_zone is 'That of the cron expression.';

comment on column pgq.schedule.missed is 'skip, one or all.';

comment on column pgq.schedule.starts_at is
'It has no tick before, and an interval is counted from here.';

comment on column pgq.schedule.next_at is
'The first tick that is neither written nor left out. It only goes ahead, whatever the clock does,
so no tick is written twice.';

comment on column pgq.schedule.due_at is
'When run_schedules looks at it: at next_at; later when there was an error, or more than one call
may write.';

comment on column pgq.schedule.last_at is 'The last tick that was written; null: none yet.';

comment on column pgq.schedule.last_error is
'Why the last try to write a tick failed; null: it did not.';

comment on column pgq.schedule.created_at is 'When it was made.';

comment on column pgq.schedule.updated_at is 'When its settings last changed.';

create or replace function pgq.version()
returns text
language sql
immutable
parallel safe
as $$
select '0.2.0'
$$;

create function pgq._check_idempotency_window(idempotency_window interval)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    perform pgq._check_interval(
        'idempotency_window', _check_idempotency_window.idempotency_window, false
    );
    if _check_idempotency_window.idempotency_window not between '1 second' and '366 days' then
        raise exception 'argument "idempotency_window" must be from 1 second to 366 days'
            using errcode = '22023',
                detail = format('Given: %s.', _check_idempotency_window.idempotency_window);
    end if;
end
$$;

revoke all on function pgq._check_idempotency_window from public;

comment on function pgq._check_idempotency_window(interval) is
'Refuses a window of idempotency keys that is null (22004), too short or too long (22023).';

create function pgq._check_idempotency_keys(
    argument text,
    idempotency_keys text[],
    size integer
)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    bad integer;
begin
    if array_ndims(_check_idempotency_keys.idempotency_keys) > 1 then
        raise exception 'the arrays of a batch must have one dimension'
            using errcode = '22023';
    end if;
    if cardinality(_check_idempotency_keys.idempotency_keys) <> _check_idempotency_keys.size then
        raise exception 'the arrays of a batch must have the same length'
            using errcode = '22023',
                detail = format(
                    'messages: %s, idempotency_keys: %s',
                    _check_idempotency_keys.size,
                    cardinality(_check_idempotency_keys.idempotency_keys)
                );
    end if;

    select max(length(k.idempotency_key))
    into bad
    from unnest(_check_idempotency_keys.idempotency_keys) as k (idempotency_key)
    where length(k.idempotency_key) not between 1 and 255;

    if bad is not null then
        raise exception 'argument "%" must have 1 to 255 characters',
            _check_idempotency_keys.argument
            using errcode = '22023',
                detail = format('Given: one that has %s.', bad);
    end if;
end
$$;

revoke all on function pgq._check_idempotency_keys from public;

comment on function pgq._check_idempotency_keys(text, text[], integer) is
'Refuses idempotency keys that are empty or too long, or other than one for each message (22023).';

create or replace function pgq._check_settings_equal(
    kind text,
    name text,
    given jsonb,
    no_limit text[],
    existing jsonb
)
returns void
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    lacking text := case
        when _check_settings_equal.kind in ('schedule', 'subscription') then 'none'
        else 'no limit'
    end;
    differences text;
begin
    -- As texts, as which JSON writes them: a month and 30 days are two settings. But a client may
    -- know no hour above 23, as Python does, so a day and 12 hours are the same as 36 hours.
    select string_agg(
        format(
            '%s: given %s, has %s',
            s.name,
            coalesce(left(s.given, 100), lacking),
            coalesce(left(s.existing, 100), lacking)
        ),
        '; '
        order by s.name
    )
    into differences
    from (
        select
            g.key as name,
            g.value as given,
            _check_settings_equal.existing ->> g.key as existing
        from jsonb_each_text(jsonb_strip_nulls(_check_settings_equal.given)) as g
        union all
        select
            n.name,
            null as given,
            _check_settings_equal.existing ->> n.name as existing
        from unnest(_check_settings_equal.no_limit) as n (name)
    ) as s
    where
        case
            when s.name in (
                'backoff',
                'backoff_max',
                'delay',
                'every',
                'idempotency_window',
                'job_ttl',
                'lease',
                'rate_interval',
                'retention'
            )
                then
                    justify_hours(s.given::interval)::text
                    is distinct from justify_hours(s.existing::interval)::text
            else s.given is distinct from s.existing
        end;

    if differences is not null then
        raise exception '% "%" already exists with other settings',
            _check_settings_equal.kind, _check_settings_equal.name
            using errcode = 'MQ005',
                detail = format('%s.', differences),
                hint = case _check_settings_equal.kind
                    when 'subscription'
                        then 'Leave a setting out to take it as it is, or unsubscribe first.'
                    else format(
                        'Leave a setting out to take it as it is, or change it with pgq.alter_%s.',
                        case _check_settings_equal.kind
                            when 'consumer group' then 'group'
                            else _check_settings_equal.kind
                        end
                    )
                end;
    end if;
end
$$;

create or replace function pgq._create_leaf(leaf integer)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- ATTACH locks out nobody who reads or writes the parent; CREATE TABLE PARTITION OF would.
    execute format(
        'create table pgq.message_%1$s (like pgq.message, primary key (partition_id, log_offset))',
        _create_leaf.leaf
    );
    execute format(
        'alter table pgq.message attach partition pgq.message_%1$s for values in (%1$s)',
        _create_leaf.leaf
    );
    execute format('create table pgq.job_archive_%1$s (like pgq.job_archive)', _create_leaf.leaf);
    -- It has no key. Without this nothing could be deleted where all tables are published.
    execute format(
        'alter table pgq.job_archive_%1$s replica identity full', _create_leaf.leaf
    );
    execute format(
        'alter table pgq.job_archive attach partition pgq.job_archive_%1$s for values in (%1$s)',
        _create_leaf.leaf
    );
    execute format(
        'create table pgq.idempotency_%1$s (
            like pgq.idempotency, primary key (scope_id, idempotency_key)
        )',
        _create_leaf.leaf
    );
    execute format(
        'alter table pgq.idempotency attach partition pgq.idempotency_%1$s for values in (%1$s)',
        _create_leaf.leaf
    );
    execute format(
        'comment on table pgq.message_%1$s is ''Segment %1$s of the messages.''', _create_leaf.leaf
    );
    execute format(
        'comment on table pgq.job_archive_%1$s is ''Segment %1$s of the finished jobs.''',
        _create_leaf.leaf
    );
    execute format(
        'comment on table pgq.idempotency_%1$s is ''Segment %1$s of the idempotency keys.''',
        _create_leaf.leaf
    );
end
$$;

comment on function pgq._create_leaf(integer) is
'Adds a leaf to message, to job_archive and to idempotency.';

create function pgq._has_keys(segment integer)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    found_one boolean := false;
begin
    if _has_keys.segment is not null then
        execute format(
            'select exists (select from pgq.idempotency_%s)', _has_keys.segment
        )
        into found_one;
    end if;
    return found_one;
end
$$;

revoke all on function pgq._has_keys from public;

comment on function pgq._has_keys(integer) is
'Whether a segment holds idempotency keys.';

create function pgq._note_former_window(
    scope_id bigint,
    window_before interval,
    window_now interval
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if interval_send(_note_former_window.window_before)
        = interval_send(_note_former_window.window_now)
    then
        return;
    end if;

    delete from pgq.former_window as f
    where f.scope_id = _note_former_window.scope_id
        and interval_send(f.idempotency_window) = interval_send(_note_former_window.window_now);

    insert into pgq.former_window (scope_id, idempotency_window, keep, noted_xid)
    values (
        _note_former_window.scope_id,
        _note_former_window.window_before,
        least(_note_former_window.window_before, _note_former_window.window_now),
        pg_current_xact_id()
    );
end
$$;

revoke all on function pgq._note_former_window from public;

comment on function pgq._note_former_window(bigint, interval, interval) is
'Notes that a queue or topic, whose row the caller has locked, gets another window: what was noted
by the one before is still to be found.';

create function pgq._key_segments(scope_id bigint, idempotency_window interval)
returns pgq._key_segments
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    state pgq._key_segments;
    unopened interval;
begin
    -- Again when a class has to be made, or to be opened, first.
    loop
        select
            array_agg(distinct c.storage_class_id),
            array_agg(distinct s.segment) filter (where s.segment is not null),
            -- Everybody who may still be at work and wrote to a segment while it was the open one
            -- is found there. Who began behind its horizon did not.
            array_agg(distinct s.segment order by s.segment) filter (
                where w.written
                    and (
                        s.state = 'open'
                        or s.state = 'sealed'
                        and coalesce(
                            s.horizon > pg_snapshot_xmin(pg_current_snapshot()), true
                        )
                    )
            ),
            min(w.span) filter (where w.written and c.segment is null)
        into state.class_ids, state.segments, state.written, unopened
        from (
            select
                _key_segments.idempotency_window as span,
                true as written
            union all
            select
                f.idempotency_window,
                f.ends_at is null
            from pgq.former_window as f
            where f.scope_id = _key_segments.scope_id
        ) as w
        left join pgq.storage_class as c
            on coalesce(interval_send(c.retention), ''::bytea) = interval_send(w.span)
            and coalesce(c.owner_id, 0) = 0
        left join pgq.segment as s on s.storage_class_id = c.storage_class_id;

        exit when unopened is null;
        perform pgq._storage_class(unopened, null, null);
    end loop;

    return state;
end
$$;

revoke all on function pgq._key_segments from public;

comment on function pgq._key_segments(bigint, interval) is
'Where the keys of a queue or topic with this window stand, and where new ones are to be written: to
all segments that others who write at the same time may have written to. The caller has taken its
transaction id before.';

create function pgq._find_keys(segment integer, scope_id bigint, idempotency_keys text[])
returns setof pgq._noted_key
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
begin
    -- Key by key: a plan for an array might read all keys of the scope.
    if _find_keys.segment = 0 then
        return query
        select
            f.idempotency_key,
            f.noted_at,
            f.job_id,
            f.partition,
            f.log_offset
        from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
        cross join lateral (
            select k.*
            from pgq.idempotency_0 as k
            where k.scope_id = _find_keys.scope_id
                and k.idempotency_key = w.idempotency_key
            limit 1
        ) as f;
    elsif _find_keys.segment = 1 then
        return query
        select
            f.idempotency_key,
            f.noted_at,
            f.job_id,
            f.partition,
            f.log_offset
        from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
        cross join lateral (
            select k.*
            from pgq.idempotency_1 as k
            where k.scope_id = _find_keys.scope_id
                and k.idempotency_key = w.idempotency_key
            limit 1
        ) as f;
    elsif _find_keys.segment <= 3 then
        if _find_keys.segment <= 2 then
            return query
            select
                f.idempotency_key,
                f.noted_at,
                f.job_id,
                f.partition,
                f.log_offset
            from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
            cross join lateral (
                select k.*
                from pgq.idempotency_2 as k
                where k.scope_id = _find_keys.scope_id
                    and k.idempotency_key = w.idempotency_key
                limit 1
            ) as f;
        else
            return query
            select
                f.idempotency_key,
                f.noted_at,
                f.job_id,
                f.partition,
                f.log_offset
            from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
            cross join lateral (
                select k.*
                from pgq.idempotency_3 as k
                where k.scope_id = _find_keys.scope_id
                    and k.idempotency_key = w.idempotency_key
                limit 1
            ) as f;
        end if;
    elsif _find_keys.segment <= 7 then
        if _find_keys.segment <= 5 then
            if _find_keys.segment <= 4 then
                return query
                select
                    f.idempotency_key,
                    f.noted_at,
                    f.job_id,
                    f.partition,
                    f.log_offset
                from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
                cross join lateral (
                    select k.*
                    from pgq.idempotency_4 as k
                    where k.scope_id = _find_keys.scope_id
                        and k.idempotency_key = w.idempotency_key
                    limit 1
                ) as f;
            else
                return query
                select
                    f.idempotency_key,
                    f.noted_at,
                    f.job_id,
                    f.partition,
                    f.log_offset
                from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
                cross join lateral (
                    select k.*
                    from pgq.idempotency_5 as k
                    where k.scope_id = _find_keys.scope_id
                        and k.idempotency_key = w.idempotency_key
                    limit 1
                ) as f;
            end if;
        else
            if _find_keys.segment <= 6 then
                return query
                select
                    f.idempotency_key,
                    f.noted_at,
                    f.job_id,
                    f.partition,
                    f.log_offset
                from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
                cross join lateral (
                    select k.*
                    from pgq.idempotency_6 as k
                    where k.scope_id = _find_keys.scope_id
                        and k.idempotency_key = w.idempotency_key
                    limit 1
                ) as f;
            else
                return query
                select
                    f.idempotency_key,
                    f.noted_at,
                    f.job_id,
                    f.partition,
                    f.log_offset
                from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
                cross join lateral (
                    select k.*
                    from pgq.idempotency_7 as k
                    where k.scope_id = _find_keys.scope_id
                        and k.idempotency_key = w.idempotency_key
                    limit 1
                ) as f;
            end if;
        end if;
    elsif _find_keys.segment <= 15 then
        if _find_keys.segment <= 11 then
            if _find_keys.segment <= 9 then
                if _find_keys.segment <= 8 then
                    return query
                    select
                        f.idempotency_key,
                        f.noted_at,
                        f.job_id,
                        f.partition,
                        f.log_offset
                    from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
                    cross join lateral (
                        select k.*
                        from pgq.idempotency_8 as k
                        where k.scope_id = _find_keys.scope_id
                            and k.idempotency_key = w.idempotency_key
                        limit 1
                    ) as f;
                else
                    return query
                    select
                        f.idempotency_key,
                        f.noted_at,
                        f.job_id,
                        f.partition,
                        f.log_offset
                    from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
                    cross join lateral (
                        select k.*
                        from pgq.idempotency_9 as k
                        where k.scope_id = _find_keys.scope_id
                            and k.idempotency_key = w.idempotency_key
                        limit 1
                    ) as f;
                end if;
            else
                if _find_keys.segment <= 10 then
                    return query
                    select
                        f.idempotency_key,
                        f.noted_at,
                        f.job_id,
                        f.partition,
                        f.log_offset
                    from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
                    cross join lateral (
                        select k.*
                        from pgq.idempotency_10 as k
                        where k.scope_id = _find_keys.scope_id
                            and k.idempotency_key = w.idempotency_key
                        limit 1
                    ) as f;
                else
                    return query
                    select
                        f.idempotency_key,
                        f.noted_at,
                        f.job_id,
                        f.partition,
                        f.log_offset
                    from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
                    cross join lateral (
                        select k.*
                        from pgq.idempotency_11 as k
                        where k.scope_id = _find_keys.scope_id
                            and k.idempotency_key = w.idempotency_key
                        limit 1
                    ) as f;
                end if;
            end if;
        else
            if _find_keys.segment <= 13 then
                if _find_keys.segment <= 12 then
                    return query
                    select
                        f.idempotency_key,
                        f.noted_at,
                        f.job_id,
                        f.partition,
                        f.log_offset
                    from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
                    cross join lateral (
                        select k.*
                        from pgq.idempotency_12 as k
                        where k.scope_id = _find_keys.scope_id
                            and k.idempotency_key = w.idempotency_key
                        limit 1
                    ) as f;
                else
                    return query
                    select
                        f.idempotency_key,
                        f.noted_at,
                        f.job_id,
                        f.partition,
                        f.log_offset
                    from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
                    cross join lateral (
                        select k.*
                        from pgq.idempotency_13 as k
                        where k.scope_id = _find_keys.scope_id
                            and k.idempotency_key = w.idempotency_key
                        limit 1
                    ) as f;
                end if;
            else
                if _find_keys.segment <= 14 then
                    return query
                    select
                        f.idempotency_key,
                        f.noted_at,
                        f.job_id,
                        f.partition,
                        f.log_offset
                    from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
                    cross join lateral (
                        select k.*
                        from pgq.idempotency_14 as k
                        where k.scope_id = _find_keys.scope_id
                            and k.idempotency_key = w.idempotency_key
                        limit 1
                    ) as f;
                else
                    return query
                    select
                        f.idempotency_key,
                        f.noted_at,
                        f.job_id,
                        f.partition,
                        f.log_offset
                    from unnest(_find_keys.idempotency_keys) as w (idempotency_key)
                    cross join lateral (
                        select k.*
                        from pgq.idempotency_15 as k
                        where k.scope_id = _find_keys.scope_id
                            and k.idempotency_key = w.idempotency_key
                        limit 1
                    ) as f;
                end if;
            end if;
        end if;
    else
        return query execute format($leaf$
            select
                f.idempotency_key,
                f.noted_at,
                f.job_id,
                f.partition,
                f.log_offset
            from unnest($1) as w (idempotency_key)
            cross join lateral (
                select k.*
                from pgq.idempotency_%1$s as k
                where k.scope_id = $2
                    and k.idempotency_key = w.idempotency_key
                limit 1
            ) as f
        $leaf$, _find_keys.segment)
        using _find_keys.idempotency_keys, _find_keys.scope_id;
    end if;
end
$$;

revoke all on function pgq._find_keys from public;

comment on function pgq._find_keys(integer, bigint, text[]) is
'The rows of idempotency keys in a segment, also those past their window.';

create function pgq._insert_keys(
    segment integer,
    scope_id bigint,
    idempotency_keys text[],
    idempotency_window interval,
    moment timestamptz
)
returns text[]
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    inserted bigint;
    kept text[];
begin
    -- Waits for others who have inserted one of them and are still at work. Without a lock on what
    -- they leave: those who find the same would wait for each other.
    if _insert_keys.segment = 0 then
        insert into pgq.idempotency_0 (scope_id, noted_at, segment, idempotency_key)
        select
            _insert_keys.scope_id,
            _insert_keys.moment,
            0,
            w.idempotency_key
        from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
        on conflict do nothing;
    elsif _insert_keys.segment = 1 then
        insert into pgq.idempotency_1 (scope_id, noted_at, segment, idempotency_key)
        select
            _insert_keys.scope_id,
            _insert_keys.moment,
            1,
            w.idempotency_key
        from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
        on conflict do nothing;
    elsif _insert_keys.segment <= 3 then
        if _insert_keys.segment <= 2 then
            insert into pgq.idempotency_2 (scope_id, noted_at, segment, idempotency_key)
            select
                _insert_keys.scope_id,
                _insert_keys.moment,
                2,
                w.idempotency_key
            from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
            on conflict do nothing;
        else
            insert into pgq.idempotency_3 (scope_id, noted_at, segment, idempotency_key)
            select
                _insert_keys.scope_id,
                _insert_keys.moment,
                3,
                w.idempotency_key
            from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
            on conflict do nothing;
        end if;
    elsif _insert_keys.segment <= 7 then
        if _insert_keys.segment <= 5 then
            if _insert_keys.segment <= 4 then
                insert into pgq.idempotency_4 (scope_id, noted_at, segment, idempotency_key)
                select
                    _insert_keys.scope_id,
                    _insert_keys.moment,
                    4,
                    w.idempotency_key
                from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
                on conflict do nothing;
            else
                insert into pgq.idempotency_5 (scope_id, noted_at, segment, idempotency_key)
                select
                    _insert_keys.scope_id,
                    _insert_keys.moment,
                    5,
                    w.idempotency_key
                from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
                on conflict do nothing;
            end if;
        else
            if _insert_keys.segment <= 6 then
                insert into pgq.idempotency_6 (scope_id, noted_at, segment, idempotency_key)
                select
                    _insert_keys.scope_id,
                    _insert_keys.moment,
                    6,
                    w.idempotency_key
                from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
                on conflict do nothing;
            else
                insert into pgq.idempotency_7 (scope_id, noted_at, segment, idempotency_key)
                select
                    _insert_keys.scope_id,
                    _insert_keys.moment,
                    7,
                    w.idempotency_key
                from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
                on conflict do nothing;
            end if;
        end if;
    elsif _insert_keys.segment <= 15 then
        if _insert_keys.segment <= 11 then
            if _insert_keys.segment <= 9 then
                if _insert_keys.segment <= 8 then
                    insert into pgq.idempotency_8 (scope_id, noted_at, segment, idempotency_key)
                    select
                        _insert_keys.scope_id,
                        _insert_keys.moment,
                        8,
                        w.idempotency_key
                    from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
                    on conflict do nothing;
                else
                    insert into pgq.idempotency_9 (scope_id, noted_at, segment, idempotency_key)
                    select
                        _insert_keys.scope_id,
                        _insert_keys.moment,
                        9,
                        w.idempotency_key
                    from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
                    on conflict do nothing;
                end if;
            else
                if _insert_keys.segment <= 10 then
                    insert into pgq.idempotency_10 (scope_id, noted_at, segment, idempotency_key)
                    select
                        _insert_keys.scope_id,
                        _insert_keys.moment,
                        10,
                        w.idempotency_key
                    from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
                    on conflict do nothing;
                else
                    insert into pgq.idempotency_11 (scope_id, noted_at, segment, idempotency_key)
                    select
                        _insert_keys.scope_id,
                        _insert_keys.moment,
                        11,
                        w.idempotency_key
                    from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
                    on conflict do nothing;
                end if;
            end if;
        else
            if _insert_keys.segment <= 13 then
                if _insert_keys.segment <= 12 then
                    insert into pgq.idempotency_12 (scope_id, noted_at, segment, idempotency_key)
                    select
                        _insert_keys.scope_id,
                        _insert_keys.moment,
                        12,
                        w.idempotency_key
                    from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
                    on conflict do nothing;
                else
                    insert into pgq.idempotency_13 (scope_id, noted_at, segment, idempotency_key)
                    select
                        _insert_keys.scope_id,
                        _insert_keys.moment,
                        13,
                        w.idempotency_key
                    from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
                    on conflict do nothing;
                end if;
            else
                if _insert_keys.segment <= 14 then
                    insert into pgq.idempotency_14 (scope_id, noted_at, segment, idempotency_key)
                    select
                        _insert_keys.scope_id,
                        _insert_keys.moment,
                        14,
                        w.idempotency_key
                    from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
                    on conflict do nothing;
                else
                    insert into pgq.idempotency_15 (scope_id, noted_at, segment, idempotency_key)
                    select
                        _insert_keys.scope_id,
                        _insert_keys.moment,
                        15,
                        w.idempotency_key
                    from unnest(_insert_keys.idempotency_keys) as w (idempotency_key)
                    on conflict do nothing;
                end if;
            end if;
        end if;
    else
        execute format($leaf$
            insert into pgq.idempotency_%1$s (scope_id, noted_at, segment, idempotency_key)
            select
                $1,
                $2,
                %1$s,
                w.idempotency_key
            from unnest($3) as w (idempotency_key)
            on conflict do nothing
        $leaf$, _insert_keys.segment)
        using _insert_keys.scope_id, _insert_keys.moment, _insert_keys.idempotency_keys;
    end if;
    get diagnostics inserted = row_count;

    if inserted = cardinality(_insert_keys.idempotency_keys) then
        return _insert_keys.idempotency_keys;
    end if;

    -- The row of a key that is past its window is used again.
    execute format(
        'insert into pgq.idempotency_%1$s as k (scope_id, noted_at, segment, idempotency_key)
        select $1, $2, %1$s, w.idempotency_key
        from unnest($3) as w (idempotency_key)
        cross join lateral (
            select n.noted_at
            from pgq.idempotency_%1$s as n
            where n.scope_id = $1
                and n.idempotency_key = w.idempotency_key
                and n.noted_at + $4 <= $2
            limit 1
        ) as o
        on conflict (scope_id, idempotency_key) do update
        set
            noted_at = excluded.noted_at,
            job_id = null,
            partition = null,
            log_offset = null
        where k.noted_at + $4 <= excluded.noted_at',
        _insert_keys.segment
    )
    using
        _insert_keys.scope_id,
        _insert_keys.moment,
        _insert_keys.idempotency_keys,
        _insert_keys.idempotency_window;

    -- Of rows without a position only those of this call are visible.
    execute format(
        'select array_agg(f.idempotency_key order by f.idempotency_key)
        from unnest($2) as w (idempotency_key)
        cross join lateral (
            select n.idempotency_key
            from pgq.idempotency_%1$s as n
            where n.scope_id = $1
                and n.idempotency_key = w.idempotency_key
                and n.job_id is null
                and n.partition is null
            limit 1
        ) as f',
        _insert_keys.segment
    )
    into kept
    using _insert_keys.scope_id, _insert_keys.idempotency_keys;

    return coalesce(kept, '{}');
end
$$;

revoke all on function pgq._insert_keys from public;

comment on function pgq._insert_keys(integer, bigint, text[], interval, timestamptz) is
'Notes keys in a segment, without a position, and returns them but for those that somebody else has
noted there meanwhile. The keys come in ascending order.';

create function pgq._forget_keys(segments integer[], scope_id bigint, idempotency_keys text[])
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    leaf integer;
begin
    foreach leaf in array _forget_keys.segments loop
        execute format(
            'delete from pgq.idempotency_%1$s as k
            where k.scope_id = $1
                and k.idempotency_key = any($2)
                and k.job_id is null
                and k.partition is null',
            leaf
        )
        using _forget_keys.scope_id, _forget_keys.idempotency_keys;
    end loop;
end
$$;

revoke all on function pgq._forget_keys from public;

comment on function pgq._forget_keys(integer[], bigint, text[]) is
'Removes keys that this call has noted in these segments before it found that another transaction
was first.';

create function pgq._note_keys(
    scope_id bigint,
    idempotency_window interval,
    idempotency_keys text[]
)
returns pgq._key_notes
language plpgsql
volatile
parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    notes pgq._key_notes;
    state pgq._key_segments;
    moment timestamptz;
    pending text[];
    lost text[];
    kept text[];
    seen pgq._noted_key[];
    known pgq._noted_key[] := '{}';
    done integer[];
    leaf integer;
    looked boolean;
begin
    pending := array(
        select distinct w.idempotency_key collate "C"
        from unnest(_note_keys.idempotency_keys) as w (idempotency_key)
        where w.idempotency_key is not null
        order by 1
    );

    -- Usually once; again for keys that another transaction was first with.
    while cardinality(pending) > 0 loop
        state := pgq._key_segments(_note_keys.scope_id, _note_keys.idempotency_window);
        moment := pgq._clock();
        looked := false;

        -- Undone, and the locks with it: overlapping transactions that had looked into an old
        -- segment would keep it from being emptied for ever, and their locks on rows would keep
        -- the open one from being sealed.
        begin
            if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
                -- The snapshot may be older than the transaction id. What has changed since raises
                -- 40001.
                perform
                from pgq.storage_class as c
                where c.storage_class_id = any(state.class_ids)
                order by c.storage_class_id
                for share;

                perform
                from pgq.segment as s
                where s.segment = any(state.written)
                order by s.segment
                for share;
            end if;

            seen := array(
                select distinct on (f.idempotency_key) f
                from unnest(state.segments) as s (segment)
                cross join lateral pgq._find_keys(s.segment, _note_keys.scope_id, pending) as f
                where f.noted_at + _note_keys.idempotency_window > moment
                order by f.idempotency_key, f.noted_at desc
            );
            looked := true;
            raise exception 'these locks are not needed any more'
                using errcode = '55P03';
        exception
            when lock_not_available then
                if not looked then
                    raise;
                end if;
        end;

        if cardinality(seen) > 0 then
            known := known || seen;
            pending := array(
                select w.idempotency_key
                from unnest(pending) as w (idempotency_key)
                except
                select f.idempotency_key
                from unnest(seen) as f
                order by 1
            );
            exit when cardinality(pending) = 0;
        end if;

        -- In ascending order, of segments and then of keys, as everywhere: whoever waits for
        -- another one here holds nothing that stands behind.
        lost := '{}';
        done := '{}';
        foreach leaf in array state.written loop
            kept := pgq._insert_keys(
                leaf, _note_keys.scope_id, pending, _note_keys.idempotency_window, moment
            );
            done := done || leaf;
            if cardinality(kept) < cardinality(pending) then
                lost := lost || array(
                    select w.idempotency_key
                    from unnest(pending) as w (idempotency_key)
                    except
                    select w.idempotency_key
                    from unnest(kept) as w (idempotency_key)
                );
                perform pgq._forget_keys(done, _note_keys.scope_id, lost);
                pending := kept;
                exit when cardinality(pending) = 0;
            end if;
        end loop;

        notes.segments := array(
            select distinct w.segment
            from unnest(notes.segments || state.written) as w (segment)
            order by w.segment
        );
        pending := array(
            select w.idempotency_key
            from unnest(lost) as w (idempotency_key)
            order by w.idempotency_key
        );
    end loop;

    -- Each place follows the first one of its key; what was found stands before all of them.
    select array_agg(w.leader order by w.place)
    into notes.leaders
    from (
        select
            g.place,
            first_value(g.place) over (
                partition by
                    g.idempotency_key,
                    case when g.idempotency_key is null then g.place end
                order by g.place
            ) as leader
        from (
            select
                generate_series(1, cardinality(_note_keys.idempotency_keys)) as place,
                unnest(_note_keys.idempotency_keys) collate "C" as idempotency_key
            union all
            select
                -f.place::integer,
                f.idempotency_key
            from unnest(known) with ordinality
                as f (idempotency_key, noted_at, job_id, partition, log_offset, place)
        ) as g
    ) as w
    where w.place > 0;

    select
        array_agg(f.job_id order by f.place),
        array_agg(f.partition order by f.place),
        array_agg(f.log_offset order by f.place)
    into notes.job_ids, notes.partitions, notes.log_offsets
    from unnest(known) with ordinality
        as f (idempotency_key, noted_at, job_id, partition, log_offset, place);

    return notes;
end
$$;

revoke all on function pgq._note_keys from public;

comment on function pgq._note_keys(bigint, interval, text[]) is
'Notes the idempotency keys of a batch for a queue or topic with this window, or finds what they
stand for; null elements have no key. Waits for other transactions that note one of them. The caller
has taken its transaction id before it read the window, and calls _place_keys in the end.';

create function pgq._place_keys(
    segments integer[],
    scope_id bigint,
    idempotency_keys text[],
    job_ids bigint[],
    partitions integer[],
    log_offsets bigint[]
)
returns void
language plpgsql
volatile
parallel unsafe
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    leaf integer;
    -- Only now: the call may have waited.
    moment timestamptz := pgq._clock();
begin
    foreach leaf in array coalesce(_place_keys.segments, '{}') loop
        -- The rows are there. They are found by their index whatever the planner thinks, which
        -- might join with all keys of the scope.
        if leaf = 0 then
            insert into pgq.idempotency_0 (
                scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
            )
            select
                _place_keys.scope_id,
                moment,
                w.job_id,
                w.log_offset,
                0,
                w.partition,
                w.idempotency_key
            from (
                select
                    unnest(_place_keys.idempotency_keys) as idempotency_key,
                    unnest(_place_keys.job_ids) as job_id,
                    unnest(_place_keys.partitions) as partition,
                    unnest(_place_keys.log_offsets) as log_offset
            ) as w
            on conflict (scope_id, idempotency_key) do update
            set
                noted_at = excluded.noted_at,
                job_id = excluded.job_id,
                partition = excluded.partition,
                log_offset = excluded.log_offset;
        elsif leaf = 1 then
            insert into pgq.idempotency_1 (
                scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
            )
            select
                _place_keys.scope_id,
                moment,
                w.job_id,
                w.log_offset,
                1,
                w.partition,
                w.idempotency_key
            from (
                select
                    unnest(_place_keys.idempotency_keys) as idempotency_key,
                    unnest(_place_keys.job_ids) as job_id,
                    unnest(_place_keys.partitions) as partition,
                    unnest(_place_keys.log_offsets) as log_offset
            ) as w
            on conflict (scope_id, idempotency_key) do update
            set
                noted_at = excluded.noted_at,
                job_id = excluded.job_id,
                partition = excluded.partition,
                log_offset = excluded.log_offset;
        elsif leaf <= 3 then
            if leaf <= 2 then
                insert into pgq.idempotency_2 (
                    scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                )
                select
                    _place_keys.scope_id,
                    moment,
                    w.job_id,
                    w.log_offset,
                    2,
                    w.partition,
                    w.idempotency_key
                from (
                    select
                        unnest(_place_keys.idempotency_keys) as idempotency_key,
                        unnest(_place_keys.job_ids) as job_id,
                        unnest(_place_keys.partitions) as partition,
                        unnest(_place_keys.log_offsets) as log_offset
                ) as w
                on conflict (scope_id, idempotency_key) do update
                set
                    noted_at = excluded.noted_at,
                    job_id = excluded.job_id,
                    partition = excluded.partition,
                    log_offset = excluded.log_offset;
            else
                insert into pgq.idempotency_3 (
                    scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                )
                select
                    _place_keys.scope_id,
                    moment,
                    w.job_id,
                    w.log_offset,
                    3,
                    w.partition,
                    w.idempotency_key
                from (
                    select
                        unnest(_place_keys.idempotency_keys) as idempotency_key,
                        unnest(_place_keys.job_ids) as job_id,
                        unnest(_place_keys.partitions) as partition,
                        unnest(_place_keys.log_offsets) as log_offset
                ) as w
                on conflict (scope_id, idempotency_key) do update
                set
                    noted_at = excluded.noted_at,
                    job_id = excluded.job_id,
                    partition = excluded.partition,
                    log_offset = excluded.log_offset;
            end if;
        elsif leaf <= 7 then
            if leaf <= 5 then
                if leaf <= 4 then
                    insert into pgq.idempotency_4 (
                        scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                    )
                    select
                        _place_keys.scope_id,
                        moment,
                        w.job_id,
                        w.log_offset,
                        4,
                        w.partition,
                        w.idempotency_key
                    from (
                        select
                            unnest(_place_keys.idempotency_keys) as idempotency_key,
                            unnest(_place_keys.job_ids) as job_id,
                            unnest(_place_keys.partitions) as partition,
                            unnest(_place_keys.log_offsets) as log_offset
                    ) as w
                    on conflict (scope_id, idempotency_key) do update
                    set
                        noted_at = excluded.noted_at,
                        job_id = excluded.job_id,
                        partition = excluded.partition,
                        log_offset = excluded.log_offset;
                else
                    insert into pgq.idempotency_5 (
                        scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                    )
                    select
                        _place_keys.scope_id,
                        moment,
                        w.job_id,
                        w.log_offset,
                        5,
                        w.partition,
                        w.idempotency_key
                    from (
                        select
                            unnest(_place_keys.idempotency_keys) as idempotency_key,
                            unnest(_place_keys.job_ids) as job_id,
                            unnest(_place_keys.partitions) as partition,
                            unnest(_place_keys.log_offsets) as log_offset
                    ) as w
                    on conflict (scope_id, idempotency_key) do update
                    set
                        noted_at = excluded.noted_at,
                        job_id = excluded.job_id,
                        partition = excluded.partition,
                        log_offset = excluded.log_offset;
                end if;
            else
                if leaf <= 6 then
                    insert into pgq.idempotency_6 (
                        scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                    )
                    select
                        _place_keys.scope_id,
                        moment,
                        w.job_id,
                        w.log_offset,
                        6,
                        w.partition,
                        w.idempotency_key
                    from (
                        select
                            unnest(_place_keys.idempotency_keys) as idempotency_key,
                            unnest(_place_keys.job_ids) as job_id,
                            unnest(_place_keys.partitions) as partition,
                            unnest(_place_keys.log_offsets) as log_offset
                    ) as w
                    on conflict (scope_id, idempotency_key) do update
                    set
                        noted_at = excluded.noted_at,
                        job_id = excluded.job_id,
                        partition = excluded.partition,
                        log_offset = excluded.log_offset;
                else
                    insert into pgq.idempotency_7 (
                        scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                    )
                    select
                        _place_keys.scope_id,
                        moment,
                        w.job_id,
                        w.log_offset,
                        7,
                        w.partition,
                        w.idempotency_key
                    from (
                        select
                            unnest(_place_keys.idempotency_keys) as idempotency_key,
                            unnest(_place_keys.job_ids) as job_id,
                            unnest(_place_keys.partitions) as partition,
                            unnest(_place_keys.log_offsets) as log_offset
                    ) as w
                    on conflict (scope_id, idempotency_key) do update
                    set
                        noted_at = excluded.noted_at,
                        job_id = excluded.job_id,
                        partition = excluded.partition,
                        log_offset = excluded.log_offset;
                end if;
            end if;
        elsif leaf <= 15 then
            if leaf <= 11 then
                if leaf <= 9 then
                    if leaf <= 8 then
                        insert into pgq.idempotency_8 (
                            scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                        )
                        select
                            _place_keys.scope_id,
                            moment,
                            w.job_id,
                            w.log_offset,
                            8,
                            w.partition,
                            w.idempotency_key
                        from (
                            select
                                unnest(_place_keys.idempotency_keys) as idempotency_key,
                                unnest(_place_keys.job_ids) as job_id,
                                unnest(_place_keys.partitions) as partition,
                                unnest(_place_keys.log_offsets) as log_offset
                        ) as w
                        on conflict (scope_id, idempotency_key) do update
                        set
                            noted_at = excluded.noted_at,
                            job_id = excluded.job_id,
                            partition = excluded.partition,
                            log_offset = excluded.log_offset;
                    else
                        insert into pgq.idempotency_9 (
                            scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                        )
                        select
                            _place_keys.scope_id,
                            moment,
                            w.job_id,
                            w.log_offset,
                            9,
                            w.partition,
                            w.idempotency_key
                        from (
                            select
                                unnest(_place_keys.idempotency_keys) as idempotency_key,
                                unnest(_place_keys.job_ids) as job_id,
                                unnest(_place_keys.partitions) as partition,
                                unnest(_place_keys.log_offsets) as log_offset
                        ) as w
                        on conflict (scope_id, idempotency_key) do update
                        set
                            noted_at = excluded.noted_at,
                            job_id = excluded.job_id,
                            partition = excluded.partition,
                            log_offset = excluded.log_offset;
                    end if;
                else
                    if leaf <= 10 then
                        insert into pgq.idempotency_10 (
                            scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                        )
                        select
                            _place_keys.scope_id,
                            moment,
                            w.job_id,
                            w.log_offset,
                            10,
                            w.partition,
                            w.idempotency_key
                        from (
                            select
                                unnest(_place_keys.idempotency_keys) as idempotency_key,
                                unnest(_place_keys.job_ids) as job_id,
                                unnest(_place_keys.partitions) as partition,
                                unnest(_place_keys.log_offsets) as log_offset
                        ) as w
                        on conflict (scope_id, idempotency_key) do update
                        set
                            noted_at = excluded.noted_at,
                            job_id = excluded.job_id,
                            partition = excluded.partition,
                            log_offset = excluded.log_offset;
                    else
                        insert into pgq.idempotency_11 (
                            scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                        )
                        select
                            _place_keys.scope_id,
                            moment,
                            w.job_id,
                            w.log_offset,
                            11,
                            w.partition,
                            w.idempotency_key
                        from (
                            select
                                unnest(_place_keys.idempotency_keys) as idempotency_key,
                                unnest(_place_keys.job_ids) as job_id,
                                unnest(_place_keys.partitions) as partition,
                                unnest(_place_keys.log_offsets) as log_offset
                        ) as w
                        on conflict (scope_id, idempotency_key) do update
                        set
                            noted_at = excluded.noted_at,
                            job_id = excluded.job_id,
                            partition = excluded.partition,
                            log_offset = excluded.log_offset;
                    end if;
                end if;
            else
                if leaf <= 13 then
                    if leaf <= 12 then
                        insert into pgq.idempotency_12 (
                            scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                        )
                        select
                            _place_keys.scope_id,
                            moment,
                            w.job_id,
                            w.log_offset,
                            12,
                            w.partition,
                            w.idempotency_key
                        from (
                            select
                                unnest(_place_keys.idempotency_keys) as idempotency_key,
                                unnest(_place_keys.job_ids) as job_id,
                                unnest(_place_keys.partitions) as partition,
                                unnest(_place_keys.log_offsets) as log_offset
                        ) as w
                        on conflict (scope_id, idempotency_key) do update
                        set
                            noted_at = excluded.noted_at,
                            job_id = excluded.job_id,
                            partition = excluded.partition,
                            log_offset = excluded.log_offset;
                    else
                        insert into pgq.idempotency_13 (
                            scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                        )
                        select
                            _place_keys.scope_id,
                            moment,
                            w.job_id,
                            w.log_offset,
                            13,
                            w.partition,
                            w.idempotency_key
                        from (
                            select
                                unnest(_place_keys.idempotency_keys) as idempotency_key,
                                unnest(_place_keys.job_ids) as job_id,
                                unnest(_place_keys.partitions) as partition,
                                unnest(_place_keys.log_offsets) as log_offset
                        ) as w
                        on conflict (scope_id, idempotency_key) do update
                        set
                            noted_at = excluded.noted_at,
                            job_id = excluded.job_id,
                            partition = excluded.partition,
                            log_offset = excluded.log_offset;
                    end if;
                else
                    if leaf <= 14 then
                        insert into pgq.idempotency_14 (
                            scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                        )
                        select
                            _place_keys.scope_id,
                            moment,
                            w.job_id,
                            w.log_offset,
                            14,
                            w.partition,
                            w.idempotency_key
                        from (
                            select
                                unnest(_place_keys.idempotency_keys) as idempotency_key,
                                unnest(_place_keys.job_ids) as job_id,
                                unnest(_place_keys.partitions) as partition,
                                unnest(_place_keys.log_offsets) as log_offset
                        ) as w
                        on conflict (scope_id, idempotency_key) do update
                        set
                            noted_at = excluded.noted_at,
                            job_id = excluded.job_id,
                            partition = excluded.partition,
                            log_offset = excluded.log_offset;
                    else
                        insert into pgq.idempotency_15 (
                            scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                        )
                        select
                            _place_keys.scope_id,
                            moment,
                            w.job_id,
                            w.log_offset,
                            15,
                            w.partition,
                            w.idempotency_key
                        from (
                            select
                                unnest(_place_keys.idempotency_keys) as idempotency_key,
                                unnest(_place_keys.job_ids) as job_id,
                                unnest(_place_keys.partitions) as partition,
                                unnest(_place_keys.log_offsets) as log_offset
                        ) as w
                        on conflict (scope_id, idempotency_key) do update
                        set
                            noted_at = excluded.noted_at,
                            job_id = excluded.job_id,
                            partition = excluded.partition,
                            log_offset = excluded.log_offset;
                    end if;
                end if;
            end if;
        else
            execute format($leaf$
                insert into pgq.idempotency_%1$s (
                    scope_id, noted_at, job_id, log_offset, segment, partition, idempotency_key
                )
                select
                    $1,
                    $2,
                    w.job_id,
                    w.log_offset,
                    %1$s,
                    w.partition,
                    w.idempotency_key
                from (
                    select
                        unnest($3) as idempotency_key,
                        unnest($4) as job_id,
                        unnest($5) as partition,
                        unnest($6) as log_offset
                ) as w
                on conflict (scope_id, idempotency_key) do update
                set
                    noted_at = excluded.noted_at,
                    job_id = excluded.job_id,
                    partition = excluded.partition,
                    log_offset = excluded.log_offset
            $leaf$, leaf)
            using _place_keys.scope_id, moment, _place_keys.idempotency_keys, _place_keys.job_ids, _place_keys.partitions, _place_keys.log_offsets;
        end if;
    end loop;
end
$$;

revoke all on function pgq._place_keys from public;

comment on function pgq._place_keys(
    integer[], bigint, text[], bigint[], integer[], bigint[]
) is
'Notes what the keys stand for that this call has noted in these segments.';

create function pgq._check_group(topic text, consumer_group text, partition integer)
returns boolean
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    target pgq.topic;
begin
    select t.*
    into target
    from pgq.topic as t
    where t.topic = _check_group.topic;

    if target.topic_id is null then
        perform pgq._fail_unknown_topic(_check_group.topic);
    end if;

    if _check_group.consumer_group is null then
        raise exception 'argument "consumer_group" must not be null'
            using errcode = '22004';
    end if;
    if not exists (
        select from pgq.consumer_group as g
        where g.topic_id = target.topic_id
            and g.consumer_group = _check_group.consumer_group
    ) then
        raise exception 'unknown consumer group "%" of topic "%"',
            _check_group.consumer_group, _check_group.topic
            using errcode = 'MQ003',
                hint = 'Create it with pgq.create_group.';
    end if;

    if _check_group.partition is not null and not exists (
        select from pgq.group_partition as l
        where l.topic = _check_group.topic
            and l.consumer_group = _check_group.consumer_group
            and l.partition = _check_group.partition
    ) then
        perform pgq._fail_unknown_partition(
            _check_group.topic, _check_group.partition, target.partitions
        );
    end if;

    return target.deferred;
end
$$;

revoke all on function pgq._check_group from public;

comment on function pgq._check_group(text, text, integer) is
'Raises what is wrong with the names of a topic (MQ001), a group (MQ003) or a partition (MQ007), if
anything; says whether the topic is deferred.';

create function pgq._check_topic_settings(
    partitions integer,
    retention interval,
    max_bytes bigint,
    idempotency_window interval
)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    perform pgq._check_count('partitions', _check_topic_settings.partitions, 1, 1024);
    perform pgq._check_idempotency_window(_check_topic_settings.idempotency_window);
    if _check_topic_settings.retention is not null then
        perform pgq._check_interval('retention', _check_topic_settings.retention, false);
    end if;
    if _check_topic_settings.max_bytes is not null then
        perform pgq._check_count(
            'max_bytes', _check_topic_settings.max_bytes, 1, 9223372036854775807
        );
    end if;
end
$$;

revoke all on function pgq._check_topic_settings from public;

comment on function pgq._check_topic_settings(integer, interval, bigint, interval) is
'Refuses settings that a topic cannot have (22004, 22023).';

create function pgq._check_dead_letters(
    topic text,
    max_attempts integer,
    dead_letter_topic text
)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_dead_letters.max_attempts is not null then
        perform pgq._check_count(
            'max_attempts', _check_dead_letters.max_attempts, 1, 2147483647
        );
    end if;
    if _check_dead_letters.dead_letter_topic = _check_dead_letters.topic then
        raise exception 'argument "dead_letter_topic" must be another topic than the group reads'
            using errcode = '22023';
    end if;
end
$$;

revoke all on function pgq._check_dead_letters from public;

comment on function pgq._check_dead_letters(text, integer, text) is
'Refuses a max_attempts and a dead_letter_topic that a group cannot have (22023).';

create function pgq._check_both_set(max_attempts integer, dead_letter_topic_id bigint)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if (_check_both_set.max_attempts is null) <> (_check_both_set.dead_letter_topic_id is null) then
        raise exception '"max_attempts", "dead_letter_topic": both or neither are needed'
            using errcode = '22023',
                hint = 'A message that had all its attempts goes to that topic.';
    end if;
end
$$;

revoke all on function pgq._check_both_set from public;

comment on function pgq._check_both_set(integer, bigint) is
'Refuses a group that has a limit of attempts and no topic for what reaches it, or one without the
other (22023).';

create or replace function pgq._topic_info(topic text)
returns setof pgq.topic_info
language sql
stable
parallel safe
rows 1
as $$
select
    t.topic,
    t.partitions,
    c.retention,
    c.max_bytes,
    t.notify,
    t.created_at,
    t.updated_at,
    t.idempotency_window,
    t.deferred
from pgq.topic as t
inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
where t.topic = _topic_info.topic
$$;

create or replace function pgq._group_info(topic text, consumer_group text)
returns setof pgq.group_info
language sql
stable
parallel safe
rows 1
as $$
select
    t.topic,
    g.consumer_group,
    g.out_of_range,
    g.created_at,
    g.updated_at,
    g.max_attempts,
    d.topic
from pgq.topic as t
inner join pgq.consumer_group as g on g.topic_id = t.topic_id
left join pgq.topic as d on d.topic_id = g.dead_letter_topic_id
where t.topic = _group_info.topic
    and g.consumer_group = _group_info.consumer_group
$$;

create or replace function pgq._enter_segment(topic text, state pgq._partition_state)
returns pgq._partition_state
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    entered pgq._partition_state := _enter_segment.state;
    class pgq.storage_class;
    until timestamptz;
    newest pgq._newest_message;
begin
    -- Again when the topic gets another class between two statements, and the one that it had goes
    -- out of use.
    while class.segment is null loop
        select c.*
        into class
        from pgq.topic as t
        inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
        where t.topic = _enter_segment.topic;

        if class.segment = entered.segment then
            -- Kept open for longer, since it was empty. Without a lock: the class goes on no
            -- earlier than this says, so if it does beside this call, the time is over by then.
            until := pgq._segment_until(class);
            if until > entered.segment_until then
                update pgq.partition as p
                set segment_until = until
                where p.partition_id = entered.partition_id;
                entered.segment_until := until;
            end if;

            return entered;
        end if;

        -- The share lock keeps the segment open until this transaction ends. Under REPEATABLE READ
        -- a class that went on since the snapshot raises 40001.
        select c.*
        into class
        from pgq.storage_class as c
        where c.storage_class_id = class.storage_class_id
        for share;
    end loop;

    entered.segment := class.segment;
    entered.segment_until := pgq._segment_until(class);

    newest := pgq._newest(
        entered.partition_id, (_enter_segment.state).segment, entered.segment_first_offset
    );

    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        -- The snapshot may be older than the newest message, and no index reaches over two
        -- segments. So the next offset is tried out where that message would stand: a row that
        -- this snapshot does not see raises 40001.
        perform pgq._try_offset(
            entered.partition_id,
            (_enter_segment.state).segment,
            coalesce(newest.log_offset + 1, entered.segment_first_offset)
        );
    end if;

    entered.segment_first_offset := coalesce(newest.log_offset + 1, entered.segment_first_offset);
    entered.segment_entered_at := greatest(newest.published_at, entered.segment_entered_at);

    if class.retention is not null and newest.log_offset is not null then
        -- What was stored without a retention is kept for the one that counts from now on.
        insert into pgq.leftover (partition_id, segment, first_offset, last_offset, remove_at)
        select
            entered.partition_id,
            g.segment,
            (_enter_segment.state).segment_first_offset,
            newest.log_offset,
            pgq._clock() + class.retention
        from pgq.segment as g
        inner join pgq.storage_class as c on c.storage_class_id = g.storage_class_id
        where g.segment = (_enter_segment.state).segment
            and c.retention is null
        on conflict (partition_id, segment, first_offset) do update
        set last_offset = excluded.last_offset;
    end if;

    update pgq.partition as p
    set
        segment = entered.segment,
        segment_first_offset = entered.segment_first_offset,
        segment_entered_at = entered.segment_entered_at,
        segment_until = entered.segment_until,
        left_segments = case
            when p.deferred then array_append(
                array_remove(p.left_segments, (_enter_segment.state).segment),
                (_enter_segment.state).segment
            )
            else '{}'
        end
    where p.partition_id = entered.partition_id;

    -- Who stages a message locks nothing, and may have read where it goes to before this change. So
    -- this segment is closed no earlier than if it had been sealed by this transaction. Whether it
    -- is sealed already does not matter: somebody may be about to do it.
    update pgq.segment as g
    set
        sealed_xid = pg_current_xact_id(),
        horizon = null
    from pgq.partition as p
    where g.segment = (_enter_segment.state).segment
        and p.partition_id = entered.partition_id
        and p.deferred;

    -- A segment that got no message of this partition leaves no range behind.
    insert into pgq.segment_range (partition_id, first_offset, segment, stored_partition_id)
    values (
        entered.partition_id, entered.segment_first_offset, entered.segment, entered.partition_id
    )
    on conflict (partition_id, first_offset) do update set segment = excluded.segment;

    return entered;
end
$$;

create or replace function pgq._settle_partitions(topic_id bigint, max_partitions integer)
returns integer
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    place record;
    settled integer := 0;
begin
    for place in
        select
            p.partition_id,
            t.topic,
            row(
                p.partition,
                p.partition_id,
                p.segment,
                p.segment_first_offset,
                p.segment_entered_at,
                p.segment_until,
                p.followed,
                p.deferred
            )::pgq._partition_state as state
        from pgq.partition as p
        inner join pgq.topic as t on t.topic_id = p.topic_id
        inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
        where t.topic_id = coalesce(_settle_partitions.topic_id, t.topic_id)
            and (
                p.segment <> c.segment
                or p.partitions <> t.partitions
                or p.followed <> (
                    t.notify
                    or exists (
                        select from pgq.subscription as s where s.topic_id = t.topic_id
                    )
                )
            )
        limit _settle_partitions.max_partitions
        for no key update of p skip locked
    loop
        -- Its keys go by the row of partition 0, so this change comes for all at once. A new
        -- statement: the topic may have been altered since this one looked.
        update pgq.partition as p
        set
            partitions = t.partitions,
            ring = pgq._free_ring(p.topic, p.partition, t.partitions),
            followed = t.notify or exists (
                select from pgq.subscription as s where s.topic_id = t.topic_id
            )
        from pgq.topic as t
        where p.partition_id = place.partition_id
            and t.topic_id = p.topic_id;

        perform pgq._enter_segment(place.topic, place.state);
        settled := settled + 1;
    end loop;

    return settled;
end
$$;

create or replace function pgq._add_partitions(
    topic pgq.topic,
    class pgq.storage_class,
    first_partition integer,
    last_partition integer
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if (_add_partitions.topic).deferred
        and (select s.last_value from pgq.partition_id as s) > 8380000
    then
        raise exception 'there have been too many partitions and queues for deferred topics'
            using errcode = '54000',
                detail = 'Up to 8380000 of their ids leave room for the ids of transactions.';
    end if;

    with added as (
        insert into pgq.partition (
            topic_id,
            partition,
            partition_id,
            topic,
            partitions,
            ring,
            followed,
            segment,
            segment_first_offset,
            segment_entered_at,
            segment_until,
            deferred
        )
        select
            (_add_partitions.topic).topic_id,
            n.number,
            nextval('pgq.partition_id'),
            (_add_partitions.topic).topic,
            _add_partitions.last_partition + 1,
            pgq._free_ring(
                (_add_partitions.topic).topic, n.number, _add_partitions.last_partition + 1
            ),
            (_add_partitions.topic).notify or exists (
                select
                from pgq.subscription as s
                where s.topic_id = (_add_partitions.topic).topic_id
            ),
            (_add_partitions.class).segment,
            1,
            '-infinity',
            pgq._segment_until(_add_partitions.class),
            (_add_partitions.topic).deferred
        from generate_series(
            _add_partitions.first_partition, _add_partitions.last_partition
        ) as n (number)
        returning partition_id, segment, partition
    ),

    placed as (
        insert into pgq.segment_range (partition_id, first_offset, segment, stored_partition_id)
        select a.partition_id, 1, a.segment, a.partition_id
        from added as a
    ),

    grouped as (
        insert into pgq.group_partition (
            group_id, partition, topic, consumer_group, partition_id, out_of_range, max_attempts
        )
        select
            g.group_id,
            a.partition,
            (_add_partitions.topic).topic,
            g.consumer_group,
            a.partition_id,
            g.out_of_range,
            g.max_attempts
        from pgq.consumer_group as g
        cross join added as a
        where g.topic_id = (_add_partitions.topic).topic_id
        returning group_id, partition
    )

    insert into pgq.group_position (
        group_id, partition, seq, first_offset, next_offset, recorded_at
    )
    select g.group_id, g.partition, 1, 1, 1, pgq._clock()
    from grouped as g;
end
$$;

create function pgq.create_topic(
    topic text,
    partitions integer default null,
    retention interval default null,
    max_bytes bigint default null,
    notify boolean default null,
    idempotency_window interval default null,
    no_limit text[] default null,
    deferred boolean default null
)
returns setof pgq.topic_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    settings pgq.topic_info;
    existing pgq.topic_info;
    made pgq.topic;
    class pgq.storage_class;
begin
    perform pgq._check_name('topic', create_topic.topic collate "C");
    perform pgq._check_no_limit(
        create_topic.no_limit collate "C",
        jsonb_build_object(
            'max_bytes', create_topic.max_bytes, 'retention', create_topic.retention
        )
    );

    settings.partitions := coalesce(create_topic.partitions, 8);
    if ('retention' = any(create_topic.no_limit collate "C")) is not true then
        settings.retention := coalesce(create_topic.retention, '7 days');
    end if;
    if ('max_bytes' = any(create_topic.no_limit collate "C")) is not true then
        settings.max_bytes := create_topic.max_bytes;
    end if;
    settings.notify := coalesce(create_topic.notify, false);
    settings.idempotency_window := coalesce(create_topic.idempotency_window, '1 day');
    settings.deferred := coalesce(create_topic.deferred, false);
    perform pgq._check_topic_settings(
        settings.partitions, settings.retention, settings.max_bytes, settings.idempotency_window
    );

    -- One that is there is found without a lock.
    select i.*
    into existing
    from pgq._topic_info(create_topic.topic collate "C") as i;

    if existing.topic is not null then
        -- An old snapshot may show one that was dropped since; it cannot be locked.
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            perform
            from pgq.topic as t
            where t.topic = create_topic.topic collate "C"
            for key share;
        end if;

        perform pgq._check_settings_equal(
            'topic',
            create_topic.topic collate "C",
            jsonb_build_object(
                'partitions', create_topic.partitions,
                'retention', create_topic.retention,
                'max_bytes', create_topic.max_bytes,
                'notify', create_topic.notify,
                'idempotency_window', create_topic.idempotency_window,
                'deferred', create_topic.deferred
            ),
            create_topic.no_limit,
            to_jsonb(existing)
        );
        return next existing;
        return;
    end if;

    class := pgq._storage_class(settings.retention, null, null);
    insert into pgq.topic (
        topic,
        partitions,
        storage_class_id,
        notify,
        created_at,
        updated_at,
        idempotency_window,
        deferred
    )
    values (
        create_topic.topic,
        settings.partitions,
        class.storage_class_id,
        settings.notify,
        pgq._clock(),
        pgq._clock(),
        settings.idempotency_window,
        settings.deferred
    )
    on conflict (topic) do nothing
    returning *
    into made;

    if made.topic_id is null then
        -- Another transaction has created it in the meantime.
        return query
        select c.*
        from pgq.create_topic(
            create_topic.topic,
            create_topic.partitions,
            create_topic.retention,
            create_topic.max_bytes,
            create_topic.notify,
            create_topic.idempotency_window,
            create_topic.no_limit,
            create_topic.deferred
        ) as c;
        return;
    end if;

    if settings.max_bytes is not null then
        class := pgq._storage_class(settings.retention, settings.max_bytes, made.topic_id);
        update pgq.topic as t
        set storage_class_id = class.storage_class_id
        where t.topic_id = made.topic_id;
    end if;
    perform pgq._add_partitions(made, class, 0, settings.partitions - 1);

    return query
    select i.*
    from pgq._topic_info(create_topic.topic collate "C") as i;
end
$$;

revoke all on function pgq.create_topic from public;

comment on function pgq.create_topic(
    text, integer, interval, bigint, boolean, interval, text[], boolean
) is
'Creates a topic and returns it; one that exists is returned if it has the settings that are given.
partitions (1 to 1024; by default 8): a partition takes one publishing transaction at a time, so
several let publishers work side by side; use 1 only for one total order. retention: how long a
message is kept at least, and about a third longer at most; by default 7 days. max_bytes: cleanup
removes the oldest messages, a segment at a time, also before their retention is over, when all
younger ones have at least so many bytes, so about a third more can be stored; by default no limit.
notify: a publish notifies the channel pgq_topic with the topic''s name; it makes commits wait for
each other, so it is off by default. idempotency_window: how long an idempotency key stands for the
message that it was given with, from 1 second to 366 days; by default 1 day. no_limit: names of
settings that shall have no limit: retention (messages are kept for ever), max_bytes. deferred: a
publish takes no lock and returns no offset, so that transactions may stay open for hours after it;
messages get their offsets, in the order in which they are seen to be committed, when somebody
consumes or calls assign_offsets; by default false; it cannot be changed later. Topics with
one retention share their storage; use few different ones. So that it can be called at each start of
an application, settings that are not given are not compared.
Errors: MQ005 the topic exists with other settings than those given, 22004 a required argument is
null, 22023 bad name or setting, 40001 above READ COMMITTED when another transaction was first
(try again).';

create function pgq.alter_topic(
    topic text,
    partitions integer default null,
    retention interval default null,
    max_bytes bigint default null,
    notify boolean default null,
    idempotency_window interval default null,
    no_limit text[] default null
)
returns setof pgq.topic_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    target pgq.topic;
    settings pgq.topic_info;
    class pgq.storage_class;
    previous integer;
begin
    loop
        select t.*
        into target
        from pgq.topic as t
        where t.topic = alter_topic.topic collate "C"
        for no key update;

        exit when target.topic_id is not null;
        perform pgq._check_topic(alter_topic.topic collate "C");
    end loop;
    perform pgq._check_no_limit(
        alter_topic.no_limit collate "C",
        jsonb_build_object(
            'max_bytes', alter_topic.max_bytes, 'retention', alter_topic.retention
        )
    );

    select i.*
    into settings
    from pgq._topic_info(alter_topic.topic collate "C") as i;

    settings.partitions := coalesce(alter_topic.partitions, settings.partitions);
    settings.retention := coalesce(alter_topic.retention, settings.retention);
    settings.max_bytes := coalesce(alter_topic.max_bytes, settings.max_bytes);
    settings.notify := coalesce(alter_topic.notify, settings.notify);
    settings.idempotency_window := coalesce(
        alter_topic.idempotency_window, settings.idempotency_window
    );
    if 'retention' = any(alter_topic.no_limit collate "C") then
        settings.retention := null;
    end if;
    if 'max_bytes' = any(alter_topic.no_limit collate "C") then
        settings.max_bytes := null;
    end if;
    perform pgq._check_topic_settings(
        settings.partitions, settings.retention, settings.max_bytes, settings.idempotency_window
    );
    if settings.partitions < target.partitions then
        raise exception 'argument "partitions" must not be lower than before'
            using errcode = '22023',
                detail = format('Topic "%s" has %s.', target.topic, target.partitions);
    end if;

    perform pgq._note_former_window(
        p.partition_id, target.idempotency_window, settings.idempotency_window
    )
    from pgq.partition as p
    where p.topic_id = target.topic_id
        and p.partition = 0;

    previous := target.partitions;
    class := pgq._storage_class(
        settings.retention,
        settings.max_bytes,
        case when settings.max_bytes is not null then target.topic_id end
    );
    update pgq.topic as t
    set
        partitions = settings.partitions,
        storage_class_id = class.storage_class_id,
        notify = settings.notify,
        idempotency_window = settings.idempotency_window,
        updated_at = pgq._clock()
    where t.topic_id = target.topic_id
    returning t.*
    into target;

    perform pgq._settle_partitions(target.topic_id, 1024);
    perform pgq._note_leftovers(target.topic_id, settings.retention, false);

    if settings.partitions > previous then
        perform pgq._add_partitions(target, class, previous, settings.partitions - 1);
    end if;

    return query
    select i.*
    from pgq._topic_info(alter_topic.topic collate "C") as i;
end
$$;

revoke all on function pgq.alter_topic from public;

comment on function pgq.alter_topic(
    text, integer, interval, bigint, boolean, interval, text[]
) is
'Changes settings of a topic and returns it; what is null stays as it is.
A partition that an open transaction publishes to gets the new settings from the next cleanup.
partitions can only grow; then most keys move to another partition, so the order within a key holds
before the change and after it, not across. A new retention or max_bytes is for messages published
from now on; where there was no retention before, what is stored is kept for the new one from now
on. With a shorter one, what is older goes together with the first that it removes. A new
idempotency_window counts for keys noted before as well, from when each was noted; but what was
noted by a shorter one is forgotten when that ends. no_limit lifts settings: retention, max_bytes.
Errors: MQ001 unknown topic, 22004 a required argument is null, 22023 bad setting, 40001 above
READ COMMITTED when another transaction was first (try again).';

create or replace function pgq.drop_topic(topic text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    target pgq.topic;
    group_ids bigint[];
begin
    -- Members that are consuming end first, while publishers still continue; those that come later
    -- find nothing.
    perform
    from pgq.group_partition as l
    where l.topic = drop_topic.topic collate "C"
    order by l.consumer_group, l.partition
    for update;

    perform pgq._check_positions(drop_topic.topic collate "C", null);

    target := pgq._lock_topic(drop_topic.topic collate "C");

    if exists (
        select from pgq.consumer_group as g where g.dead_letter_topic_id = target.topic_id
    ) then
        raise exception 'topic "%" gets the dead letters of consumer groups', drop_topic.topic
            using errcode = '2BP01',
                detail = (
                    select
                        string_agg(
                            format('Group "%s" of topic "%s".', g.consumer_group, t.topic),
                            ' '
                            order by t.topic, g.consumer_group
                        )
                    from pgq.consumer_group as g
                    inner join pgq.topic as t on t.topic_id = g.topic_id
                    where g.dead_letter_topic_id = target.topic_id
                ),
                hint = 'Drop them, or change them with pgq.alter_group, before.';
    end if;
    if target.deferred then
        -- So that they are found where nothing is emptied, too.
        perform
        from pgq._assign_all(target.topic, null, null)
        where exists (
            select
            from pgq.storage_class as c
            where c.storage_class_id = target.storage_class_id
                and c.retention is null
        );
    end if;

    group_ids := array(
        select g.group_id from pgq.consumer_group as g where g.topic_id = target.topic_id
    );
    perform pgq._note_leftovers(target.topic_id, '0', true);

    delete from pgq.assignment as a
    using pgq.partition as p
    where p.topic_id = target.topic_id
        and a.partition_id = p.partition_id;

    delete from pgq.topic as t
    where t.topic_id = target.topic_id;

    -- Only now: members that were consuming have ended, and noted their last position.
    delete from pgq.group_position as j
    where j.group_id = any(group_ids);
end
$$;

comment on function pgq.drop_topic(text) is
'Removes a topic with its messages and consumer groups.
It waits for transactions that consume from it or publish to it. The space is given back by cleanup.
Its idempotency keys are forgotten: in a new topic of that name they are new.
Errors: MQ001 unknown topic, 22004 a required argument is null, 2BP01 it is the dead_letter_topic of
a consumer group, 40001 above READ COMMITTED when another transaction was first (try again).';

create function pgq._lock_dead_letter_topic(topic text, dead_letter_topic text)
returns bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target_id bigint;
begin
    if _lock_dead_letter_topic.dead_letter_topic is null then
        return null;
    end if;

    loop
        -- Both, so that two groups whose dead letters go to each other's topic cannot block each
        -- other.
        perform
        from pgq.topic as t
        where t.topic in (
            _lock_dead_letter_topic.topic, _lock_dead_letter_topic.dead_letter_topic
        )
        order by t.topic
        for no key update;

        -- Changed, though not what it says, so that whoever drops it by an older snapshot, which
        -- does not show the group, cannot lock it.
        update pgq.topic as t
        set updated_at = t.updated_at
        where t.topic = _lock_dead_letter_topic.dead_letter_topic
        returning t.topic_id
        into target_id;

        exit when target_id is not null;
        perform pgq._check_topic(_lock_dead_letter_topic.dead_letter_topic);
    end loop;

    return target_id;
end
$$;

revoke all on function pgq._lock_dead_letter_topic from public;

comment on function pgq._lock_dead_letter_topic(text, text) is
'Locks the topic that is to get the dead letters of a group, and the one that the group reads, until
the transaction ends, and returns the id of the first; null when there is none. Raises MQ001.';

create function pgq.create_group(
    topic text,
    consumer_group text,
    start text default 'earliest',
    out_of_range text default null,
    max_attempts integer default null,
    dead_letter_topic text default null
)
returns setof pgq.group_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    target pgq.topic;
    dead_letter_id bigint;
    new_id bigint;
    existing pgq.group_info;
begin
    perform pgq._check_name('consumer_group', create_group.consumer_group collate "C");
    if create_group.start collate "C" not in ('earliest', 'latest') then
        raise exception 'argument "start" must be earliest or latest'
            using errcode = '22023';
    end if;
    perform pgq._check_out_of_range(create_group.out_of_range collate "C");
    perform pgq._check_dead_letters(
        create_group.topic collate "C",
        create_group.max_attempts,
        create_group.dead_letter_topic collate "C"
    );

    -- One that is there is found without a lock.
    select i.*
    into existing
    from pgq._group_info(create_group.topic collate "C", create_group.consumer_group) as i;

    if existing.topic is not null then
        -- An old snapshot may show one that was dropped since; it cannot be locked.
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            perform
            from pgq.consumer_group as g
            inner join pgq.topic as t on t.topic_id = g.topic_id
            where t.topic = create_group.topic collate "C"
                and g.consumer_group = create_group.consumer_group collate "C"
            for key share of g;
        end if;

        perform pgq._check_settings_equal(
            'consumer group',
            create_group.consumer_group collate "C",
            jsonb_build_object(
                'out_of_range', create_group.out_of_range,
                'max_attempts', create_group.max_attempts,
                'dead_letter_topic', create_group.dead_letter_topic
            ),
            null,
            to_jsonb(existing)
        );
        return next existing;
        return;
    end if;

    dead_letter_id := pgq._lock_dead_letter_topic(
        create_group.topic collate "C", create_group.dead_letter_topic collate "C"
    );
    perform pgq._check_both_set(create_group.max_attempts, dead_letter_id);

    -- The lock keeps the number of partitions. The row is changed, though not what it says, so that
    -- whoever adds partitions by an older snapshot, which does not show this group, cannot lock it.
    loop
        update pgq.topic as t
        set updated_at = t.updated_at
        where t.topic = create_group.topic collate "C"
        returning t.*
        into target;

        exit when target.topic_id is not null;
        perform pgq._check_topic(create_group.topic collate "C");
    end loop;

    if target.deferred and create_group.start collate "C" = 'latest' then
        -- What was published before is not for this group, though it may have no offsets yet.
        perform
        from pgq._assign_all(target.topic, null, null);
    end if;

    insert into pgq.consumer_group (
        topic_id,
        consumer_group,
        out_of_range,
        created_at,
        updated_at,
        max_attempts,
        dead_letter_topic_id
    )
    values (
        target.topic_id,
        create_group.consumer_group,
        coalesce(create_group.out_of_range, 'error'),
        pgq._clock(),
        pgq._clock(),
        create_group.max_attempts,
        dead_letter_id
    )
    on conflict (topic_id, consumer_group) do nothing
    returning group_id into new_id;

    if new_id is null then
        -- Another transaction has created it in the meantime.
        return query
        select c.*
        from pgq.create_group(
            create_group.topic,
            create_group.consumer_group,
            create_group.start,
            create_group.out_of_range,
            create_group.max_attempts,
            create_group.dead_letter_topic
        ) as c;
        return;
    end if;

    insert into pgq.group_partition (
        group_id, partition, topic, consumer_group, partition_id, out_of_range, max_attempts
    )
    select
        new_id,
        p.partition,
        target.topic,
        create_group.consumer_group,
        p.partition_id,
        coalesce(create_group.out_of_range, 'error'),
        create_group.max_attempts
    from pgq.partition as p
    where p.topic_id = target.topic_id;

    insert into pgq.group_position (
        group_id, partition, seq, first_offset, next_offset, recorded_at
    )
    select new_id, s.partition, 1, s.next_offset, s.next_offset, pgq._clock()
    from (
        select
            p.partition,
            case
                when create_group.start collate "C" is distinct from 'latest'
                    then pgq._first_available(p.partition_id)
                else pgq._last_offset(p.partition_id, p.segment, p.segment_first_offset) + 1
            end as next_offset
        from pgq.partition as p
        where p.topic_id = target.topic_id
    ) as s;

    return query
    select i.*
    from pgq._group_info(create_group.topic collate "C", create_group.consumer_group) as i;
end
$$;

revoke all on function pgq.create_group from public;

comment on function pgq.create_group(text, text, text, text, integer, text) is
'Creates a consumer group and returns it; one that exists is returned if the given settings agree.
start: earliest (from the oldest message kept, the default) or latest (only what is published from
now on); of a group that exists it is not compared. out_of_range: what happens when retention
removed messages that the group has not read: error (MQ004 until seek, the default), or skip to the
oldest that is there. max_attempts and dead_letter_topic, which is another topic: a batch that
failed so often, by nack_offsets or because its lease ran out, is given out message by message from
then on, and a message that failed so often alone is published to that topic, with its key and
content and with headers that say where it comes from and why: pgq_topic, pgq_partition, pgq_offset,
pgq_group, pgq_attempts, pgq_error, pgq_published_at. The group goes on behind it. By default there
is no limit: the group stays at what fails.
Errors: MQ001 unknown topic, MQ005 the group exists with other settings than those given,
22004 a required argument is null, 22023 bad name or setting, 40001 above READ COMMITTED when
another transaction was first, or at any level when retention removes what is being read (try
again).';

create function pgq.alter_group(
    topic text,
    consumer_group text,
    out_of_range text default null,
    max_attempts integer default null,
    dead_letter_topic text default null,
    no_limit text[] default null
)
returns setof pgq.group_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    dead_letter_id bigint;
    target_id bigint;
    altered pgq.consumer_group;
begin
    perform pgq._check_out_of_range(alter_group.out_of_range collate "C");
    perform pgq._check_dead_letters(
        alter_group.topic collate "C",
        alter_group.max_attempts,
        alter_group.dead_letter_topic collate "C"
    );
    perform pgq._check_no_limit(
        alter_group.no_limit collate "C",
        jsonb_build_object(
            'max_attempts',
            coalesce(alter_group.max_attempts::text, alter_group.dead_letter_topic)
        )
    );

    loop
        -- Members end first; only then the topic. That is changed, though not what it says, so that
        -- whoever adds partitions by an older snapshot, which shows the old setting, cannot lock
        -- it.
        perform
        from pgq.group_partition as l
        where l.topic = alter_group.topic collate "C"
            and l.consumer_group = alter_group.consumer_group collate "C"
        order by l.partition
        for no key update;

        dead_letter_id := pgq._lock_dead_letter_topic(
            alter_group.topic collate "C", alter_group.dead_letter_topic collate "C"
        );
        update pgq.topic as t
        set updated_at = t.updated_at
        where t.topic = alter_group.topic collate "C"
        returning t.topic_id
        into target_id;

        update pgq.consumer_group as g
        set
            out_of_range = coalesce(alter_group.out_of_range, g.out_of_range),
            updated_at = pgq._clock(),
            max_attempts = case
                when cardinality(alter_group.no_limit) > 0 then null
                else coalesce(alter_group.max_attempts, g.max_attempts)
            end,
            dead_letter_topic_id = case
                when cardinality(alter_group.no_limit) > 0 then null
                else coalesce(dead_letter_id, g.dead_letter_topic_id)
            end
        where g.topic_id = target_id
            and g.consumer_group = alter_group.consumer_group collate "C"
        returning g.*
        into altered;

        exit when altered.group_id is not null;
        -- Where this finds it, it was dropped and created again while this call waited.
        perform pgq._check_group(alter_group.topic collate "C", alter_group.consumer_group, null);
    end loop;

    perform pgq._check_both_set(altered.max_attempts, altered.dead_letter_topic_id);

    update pgq.group_partition as l
    set
        out_of_range = altered.out_of_range,
        max_attempts = altered.max_attempts
    where l.group_id = altered.group_id;

    return query
    select i.*
    from pgq._group_info(alter_group.topic collate "C", alter_group.consumer_group) as i;
end
$$;

revoke all on function pgq.alter_group from public;

comment on function pgq.alter_group(text, text, text, integer, text, text[]) is
'Changes settings of a consumer group and returns it; what is null stays as it is.
See create_group for the settings. A new max_attempts counts for what has failed before as well.
no_limit lifts max_attempts, and with it the dead_letter_topic; then attempts are forgotten. It
waits for transactions that consume for the group.
Errors: MQ001 unknown topic, MQ003 unknown group, 22004 a required argument is null, 22023 bad
setting, 40001 above READ COMMITTED when another transaction was first (try again).';

create or replace function pgq.list_groups(topic text default null)
returns setof pgq.group_info
language plpgsql
stable
parallel safe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    if list_groups.topic is not null
        and not exists (select from pgq.topic as t where t.topic = list_groups.topic collate "C")
    then
        perform pgq._fail_unknown_topic(list_groups.topic collate "C");
    end if;

    return query
    select
        t.topic,
        g.consumer_group,
        g.out_of_range,
        g.created_at,
        g.updated_at,
        g.max_attempts,
        d.topic
    from pgq.topic as t
    inner join pgq.consumer_group as g on g.topic_id = t.topic_id
    left join pgq.topic as d on d.topic_id = g.dead_letter_topic_id
    where t.topic = coalesce(list_groups.topic collate "C", t.topic)
    order by t.topic, g.consumer_group;
end
$$;

create function pgq._point_jobs(
    queue_id bigint,
    partition_id bigint,
    segment integer,
    offsets bigint[],
    visible_at timestamptz,
    expires_at timestamptz
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    insert into pgq.job (
        job_id,
        queue_id,
        partition_id,
        log_offset,
        expires_at,
        visible_at,
        segment,
        attempt,
        priority
    )
    select
        nextval('pgq.job_id'),
        _point_jobs.queue_id,
        _point_jobs.partition_id,
        o.log_offset,
        _point_jobs.expires_at,
        _point_jobs.visible_at,
        _point_jobs.segment,
        0,
        0
    from unnest(_point_jobs.offsets) as o (log_offset);
end
$$;

revoke all on function pgq._point_jobs from public;

comment on function pgq._point_jobs(
    bigint, bigint, integer, bigint[], timestamptz, timestamptz
) is
'Adds jobs to a queue whose payloads are stored already, in the order of the array.';

create function pgq._point_ordered(
    queue_id bigint,
    partition_id bigint,
    segment integer,
    offsets bigint[],
    visible_at timestamptz,
    expires_at timestamptz
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    keys text[];
    free text[];
    turns boolean[];
    ids bigint[];
begin
    -- A long key must not undo the publish: those that begin alike are one.
    if _point_ordered.segment = 0 then
        select array_agg(left(m.key, 255) order by m.log_offset)
        from pgq.message_0 as m
        where m.partition_id = _point_ordered.partition_id
            and m.log_offset = any(_point_ordered.offsets)
        into keys;
    elsif _point_ordered.segment = 1 then
        select array_agg(left(m.key, 255) order by m.log_offset)
        from pgq.message_1 as m
        where m.partition_id = _point_ordered.partition_id
            and m.log_offset = any(_point_ordered.offsets)
        into keys;
    elsif _point_ordered.segment <= 3 then
        if _point_ordered.segment <= 2 then
            select array_agg(left(m.key, 255) order by m.log_offset)
            from pgq.message_2 as m
            where m.partition_id = _point_ordered.partition_id
                and m.log_offset = any(_point_ordered.offsets)
            into keys;
        else
            select array_agg(left(m.key, 255) order by m.log_offset)
            from pgq.message_3 as m
            where m.partition_id = _point_ordered.partition_id
                and m.log_offset = any(_point_ordered.offsets)
            into keys;
        end if;
    elsif _point_ordered.segment <= 7 then
        if _point_ordered.segment <= 5 then
            if _point_ordered.segment <= 4 then
                select array_agg(left(m.key, 255) order by m.log_offset)
                from pgq.message_4 as m
                where m.partition_id = _point_ordered.partition_id
                    and m.log_offset = any(_point_ordered.offsets)
                into keys;
            else
                select array_agg(left(m.key, 255) order by m.log_offset)
                from pgq.message_5 as m
                where m.partition_id = _point_ordered.partition_id
                    and m.log_offset = any(_point_ordered.offsets)
                into keys;
            end if;
        else
            if _point_ordered.segment <= 6 then
                select array_agg(left(m.key, 255) order by m.log_offset)
                from pgq.message_6 as m
                where m.partition_id = _point_ordered.partition_id
                    and m.log_offset = any(_point_ordered.offsets)
                into keys;
            else
                select array_agg(left(m.key, 255) order by m.log_offset)
                from pgq.message_7 as m
                where m.partition_id = _point_ordered.partition_id
                    and m.log_offset = any(_point_ordered.offsets)
                into keys;
            end if;
        end if;
    elsif _point_ordered.segment <= 15 then
        if _point_ordered.segment <= 11 then
            if _point_ordered.segment <= 9 then
                if _point_ordered.segment <= 8 then
                    select array_agg(left(m.key, 255) order by m.log_offset)
                    from pgq.message_8 as m
                    where m.partition_id = _point_ordered.partition_id
                        and m.log_offset = any(_point_ordered.offsets)
                    into keys;
                else
                    select array_agg(left(m.key, 255) order by m.log_offset)
                    from pgq.message_9 as m
                    where m.partition_id = _point_ordered.partition_id
                        and m.log_offset = any(_point_ordered.offsets)
                    into keys;
                end if;
            else
                if _point_ordered.segment <= 10 then
                    select array_agg(left(m.key, 255) order by m.log_offset)
                    from pgq.message_10 as m
                    where m.partition_id = _point_ordered.partition_id
                        and m.log_offset = any(_point_ordered.offsets)
                    into keys;
                else
                    select array_agg(left(m.key, 255) order by m.log_offset)
                    from pgq.message_11 as m
                    where m.partition_id = _point_ordered.partition_id
                        and m.log_offset = any(_point_ordered.offsets)
                    into keys;
                end if;
            end if;
        else
            if _point_ordered.segment <= 13 then
                if _point_ordered.segment <= 12 then
                    select array_agg(left(m.key, 255) order by m.log_offset)
                    from pgq.message_12 as m
                    where m.partition_id = _point_ordered.partition_id
                        and m.log_offset = any(_point_ordered.offsets)
                    into keys;
                else
                    select array_agg(left(m.key, 255) order by m.log_offset)
                    from pgq.message_13 as m
                    where m.partition_id = _point_ordered.partition_id
                        and m.log_offset = any(_point_ordered.offsets)
                    into keys;
                end if;
            else
                if _point_ordered.segment <= 14 then
                    select array_agg(left(m.key, 255) order by m.log_offset)
                    from pgq.message_14 as m
                    where m.partition_id = _point_ordered.partition_id
                        and m.log_offset = any(_point_ordered.offsets)
                    into keys;
                else
                    select array_agg(left(m.key, 255) order by m.log_offset)
                    from pgq.message_15 as m
                    where m.partition_id = _point_ordered.partition_id
                        and m.log_offset = any(_point_ordered.offsets)
                    into keys;
                end if;
            end if;
        end if;
    else
        execute format($leaf$
            select array_agg(left(m.key, 255) order by m.log_offset)
            from pgq.message_%1$s as m
            where m.partition_id = $1
                and m.log_offset = any($2)
        $leaf$, _point_ordered.segment)
        into keys
        using _point_ordered.partition_id, _point_ordered.offsets;
    end if;

    -- Before the ids are taken.
    free := pgq._join_order(_point_ordered.queue_id, keys);
    ids := array(
        select nextval('pgq.job_id')
        from generate_series(1, cardinality(keys))
    );
    turns := pgq._turns(_point_ordered.queue_id, keys, free, null);

    insert into pgq.job (
        job_id,
        queue_id,
        partition_id,
        log_offset,
        expires_at,
        visible_at,
        segment,
        attempt,
        priority,
        ordered_key,
        due_at
    )
    select
        b.job_id,
        _point_ordered.queue_id,
        _point_ordered.partition_id,
        b.log_offset,
        _point_ordered.expires_at,
        case when b.waits then 'infinity' else _point_ordered.visible_at end,
        _point_ordered.segment,
        0,
        0,
        b.ordered_key,
        case when b.waits then _point_ordered.visible_at end
    from (
        select
            unnest(ids) as job_id,
            unnest(_point_ordered.offsets) as log_offset,
            unnest(keys) as ordered_key,
            unnest(turns) as waits
    ) as b;
end
$$;

revoke all on function pgq._point_ordered from public;

comment on function pgq._point_ordered(
    bigint, bigint, integer, bigint[], timestamptz, timestamptz
) is
'What _point_jobs does for an ordered queue: the offsets, in ascending order, are those of messages
in one segment, whose keys say which of them wait for another.';

create function pgq._add_runs(
    queue_id bigint,
    partition_id bigint,
    segment integer,
    offsets bigint[],
    visible_at timestamptz,
    expires_at timestamptz
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- A claim of one job makes jobs of a whole run, so they are short.
    insert into pgq.job_run (
        queue_id,
        visible_at,
        run_id,
        partition_id,
        first_offset,
        expires_at,
        segment,
        jobs,
        places
    )
    select
        _add_runs.queue_id,
        _add_runs.visible_at,
        nextval('pgq.job_id'),
        _add_runs.partition_id,
        r.first_offset,
        _add_runs.expires_at,
        _add_runs.segment,
        r.jobs,
        case when r.last_place >= r.jobs then r.places end
    from (
        select
            _add_runs.offsets[1] + p.piece * 100 as first_offset,
            count(*)::integer as jobs,
            max(p.place) as last_place,
            array_agg(p.place order by p.place) as places
        from (
            select
                (o.log_offset - _add_runs.offsets[1]) / 100 as piece,
                ((o.log_offset - _add_runs.offsets[1]) % 100)::smallint as place
            from unnest(_add_runs.offsets) as o (log_offset)
        ) as p
        group by p.piece
        order by p.piece
    ) as r;
end
$$;

revoke all on function pgq._add_runs from public;

comment on function pgq._add_runs(
    bigint, bigint, integer, bigint[], timestamptz, timestamptz
) is
'Adds jobs as _point_jobs does, but in runs of up to 100 messages.';

create function pgq._expand_run(run pgq.job_run)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    delete from pgq.job_run as r
    where r.queue_id = (_expand_run.run).queue_id
        and r.visible_at = (_expand_run.run).visible_at
        and r.run_id = (_expand_run.run).run_id;

    -- They become due when the run was: no floor has risen above it, see _raise_floor.
    perform pgq._point_jobs(
        (_expand_run.run).queue_id,
        (_expand_run.run).partition_id,
        (_expand_run.run).segment,
        array(
            select (_expand_run.run).first_offset + p.place
            from unnest(
                coalesce(
                    (_expand_run.run).places,
                    array(select generate_series(0, (_expand_run.run).jobs - 1)::smallint)
                )
            ) as p (place)
        ),
        (_expand_run.run).visible_at,
        (_expand_run.run).expires_at
    );
end
$$;

revoke all on function pgq._expand_run from public;

comment on function pgq._expand_run(pgq.job_run) is
'Makes jobs of a run, whose row the caller has locked, in the order of their messages.';

create function pgq._fail_unknown_subscription(subscription text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _fail_unknown_subscription.subscription is null then
        raise exception 'argument "subscription" must not be null'
            using errcode = '22004';
    end if;
    raise exception 'unknown subscription "%"', _fail_unknown_subscription.subscription
        using errcode = 'MQ011',
            hint = 'Create it with pgq.subscribe, or see pgq.list_subscriptions for those that '
                'exist.';
end
$$;

revoke all on function pgq._fail_unknown_subscription from public;

comment on function pgq._fail_unknown_subscription(text) is
'Raises MQ011, or 22004 when no name was given.';

create function pgq._check_filter(filter jsonb)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    name text;
begin
    if jsonb_typeof(_check_filter.filter) <> 'object' then
        raise exception 'argument "filter" must be a JSON object'
            using errcode = '22023',
                hint = 'It has a list of values for each header, like {"status": ["shipped"]}.';
    end if;

    select f.key
    into name
    from jsonb_each(_check_filter.filter) as f
    where jsonb_typeof(f.value) <> 'array'
    limit 1;

    if found then
        raise exception 'argument "filter" must have a list of values for each header'
            using errcode = '22023',
                detail = format('Header "%s" has none.', left(name, 100)),
                hint = 'Write it like {"status": ["processed", "shipped"]}.';
    end if;
end
$$;

revoke all on function pgq._check_filter from public;

comment on function pgq._check_filter(jsonb) is
'Refuses a filter that is no JSON object of arrays (22023).';

create function pgq._routing_regex(routing_key text)
returns text
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    word text;
    regex text := '^';
    -- How many stars, and whether any #, since the last word: in whatever order they stand, they
    -- mean the same. So there is one expression for all, in which nothing is repeated twice.
    stars integer := 0;
    hash boolean := false;
begin
    if _routing_regex.routing_key is null then
        return null;
    end if;
    if octet_length(_routing_regex.routing_key) not between 1 and 255 then
        raise exception 'argument "routing_key" must have 1 to 255 bytes'
            using errcode = '22023';
    end if;

    -- Each word has a dot in front, in the key as well, so that no word and an empty one differ.
    foreach word in array string_to_array(_routing_regex.routing_key, '.') || null::text loop
        case word
            when '*' then
                stars := stars + 1;
            when '#' then
                hash := true;
            else
                regex := regex
                    || repeat('\.[^.]*', stars)
                    || case when hash then '(?:\.[^.]*)*' else '' end;
                stars := 0;
                hash := false;
                if word is not null then
                    regex := regex
                        || '\.'
                        || regexp_replace(word, '([][\\.+*?^$(){}|])', '\\\1', 'g');
                end if;
        end case;
    end loop;

    return regex || '$';
end
$$;

revoke all on function pgq._routing_regex from public;

comment on function pgq._routing_regex(text) is
'A routing pattern of AMQP as a regular expression for a routing key with a dot in front of each
word; null for null. Refuses an empty one and one that is too long (22023).';

create function pgq._matches(headers jsonb, filter jsonb, routing_regex text)
returns boolean
language sql
immutable
parallel safe
as $$
select coalesce(
    (
        _matches.filter is null
        or not exists (
            select
            from jsonb_each(_matches.filter) as f
            where not exists (
                select
                from jsonb_array_elements(f.value) as v
                where v.value = _matches.headers -> f.key
            )
        )
    )
    and (
        _matches.routing_regex is null
        or case
            when _matches.headers ->> 'routing_key' = '' then ''
            else '.' || (_matches.headers ->> 'routing_key')
        end ~ _matches.routing_regex collate "C"
    ),
    false
)
$$;

revoke all on function pgq._matches from public;

comment on function pgq._matches(jsonb, jsonb, text) is
'Whether headers are what a filter and a routing pattern ask for. It raises no error, whatever the
headers are.';

create function pgq._subscription_info(subscription text)
returns setof pgq.subscription_info
language sql
stable
parallel safe
rows 1
as $$
select
    s.subscription,
    t.topic,
    q.queue,
    s.filter,
    s.routing_key,
    s.created_at
from pgq.subscription as s
inner join pgq.topic as t on t.topic_id = s.topic_id
inner join pgq.queue as q on q.queue_id = s.queue_id
where s.subscription = _subscription_info.subscription
$$;

revoke all on function pgq._subscription_info from public;

comment on function pgq._subscription_info(text) is
'A subscription and its settings; no row when there is none of that name.';

create function pgq.subscribe(
    subscription text,
    topic text,
    queue text,
    filter jsonb default null,
    routing_key text default null
)
returns setof pgq.subscription_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    existing pgq.subscription_info;
    regex text;
    target pgq.topic;
    target_id bigint;
begin
    perform pgq._check_name('subscription', subscribe.subscription collate "C");
    perform pgq._check_filter(subscribe.filter);
    regex := pgq._routing_regex(subscribe.routing_key collate "C");

    -- One that is there is found without a lock.
    select i.*
    into existing
    from pgq._subscription_info(subscribe.subscription collate "C") as i;

    if existing.subscription is not null then
        -- An old snapshot may show one that is gone since; it cannot be locked.
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            perform
            from pgq.subscription as s
            where s.subscription = subscribe.subscription collate "C"
            for key share;
        end if;

        if subscribe.topic is null then
            perform pgq._fail_unknown_topic(subscribe.topic);
        end if;
        if subscribe.queue is null then
            perform pgq._fail_unknown_queue(subscribe.queue);
        end if;

        perform pgq._check_settings_equal(
            'subscription',
            subscribe.subscription,
            jsonb_build_object(
                'topic', subscribe.topic,
                'queue', subscribe.queue,
                'filter', subscribe.filter::text,
                'routing_key', subscribe.routing_key
            ),
            null,
            to_jsonb(existing) || jsonb_build_object('filter', existing.filter::text)
        );
        return next existing;
        return;
    end if;

    -- Whoever publishes ends first: who comes then, reads behind the lock of its partition what
    -- this has written, or, with an older snapshot, cannot lock it. The row of the topic is changed
    -- too, for whoever adds partitions by such a one.
    perform pgq._check_topic(subscribe.topic collate "C");
    perform pgq._check_queue(subscribe.queue collate "C");
    target := pgq._lock_topic(subscribe.topic collate "C");
    if target.deferred then
        raise exception 'argument "topic" must name a topic that is not deferred'
            using errcode = '22023',
                hint = 'Its messages have no offsets yet at which jobs could point.';
    end if;

    loop
        update pgq.queue as q
        set subscribed = true
        where q.queue = subscribe.queue collate "C"
        returning q.queue_id
        into target_id;

        exit when target_id is not null;
        perform pgq._check_queue(subscribe.queue collate "C");
    end loop;

    insert into pgq.subscription (
        subscription, topic_id, queue_id, filter, routing_key, routing_regex, created_at
    )
    values (
        subscribe.subscription,
        target.topic_id,
        target_id,
        subscribe.filter,
        subscribe.routing_key,
        regex,
        pgq._clock()
    )
    on conflict do nothing;

    if not found then
        if exists (
            select
            from pgq.subscription as s
            where s.subscription = subscribe.subscription collate "C"
        ) then
            -- Another transaction has made it in the meantime.
            return query
            select c.*
            from pgq.subscribe(
                subscribe.subscription,
                subscribe.topic,
                subscribe.queue,
                subscribe.filter,
                subscribe.routing_key
            ) as c;
            return;
        end if;

        raise exception 'queue "%" is subscribed to topic "%" already',
            subscribe.queue, subscribe.topic
            using errcode = 'MQ005',
                detail = (
                    select format('By the subscription "%s".', s.subscription)
                    from pgq.subscription as s
                    where s.topic_id = target.topic_id
                        and s.queue_id = target_id
                ),
                hint = 'Remove that one with pgq.unsubscribe first.';
    end if;

    update pgq.partition as p
    set followed = true
    where p.topic_id = target.topic_id;

    update pgq.topic as t
    set updated_at = t.updated_at
    where t.topic_id = target.topic_id;

    return query
    select i.*
    from pgq._subscription_info(subscribe.subscription collate "C") as i;
end
$$;

revoke all on function pgq.subscribe from public;

comment on function pgq.subscribe(text, text, text, jsonb, text) is
'Has a queue get a job for each message of a topic; one that exists has to have what is given.
It returns the subscription, as create_topic does a topic. From now on, whatever publishes a message
to the topic adds a job to the queue, in the same transaction. The job has the content, key, headers
and time of the message, which is not copied; its delay and job_ttl are those of the queue. filter:
for names of headers the values that each may have, like {"status": ["processed", "shipped"]}; a
message must have all of these headers, each with one of its values, which are compared as JSON (1
and 1.0 are equal, 1 and "1" are not); {} takes all messages. routing_key: a pattern of AMQP for the
header routing_key, 1 to 255 bytes long: words with dots between them, where * stands for one word
and # for any number of them, none included; a message without that header does not match. With
both, both have to match. A queue can be subscribed to a topic once, and to several topics. It waits
for transactions that publish to the topic: then each message that is published after this call has
committed is delivered, and none that was before. Jobs that were finished are kept no longer than
the messages of the topic. A deferred topic cannot be subscribed to.
Errors: MQ001 unknown topic, MQ002 unknown queue, MQ005 the subscription exists with other settings
than those given, or the queue is subscribed to the topic by another name, 22004 a required argument
is null, 22023 bad name, filter or routing_key, or a deferred topic, 40001 above READ COMMITTED when
another transaction was first (try again).';

create function pgq.unsubscribe(subscription text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    target_id bigint;
begin
    loop
        select s.topic_id
        into target_id
        from pgq.subscription as s
        where s.subscription = unsubscribe.subscription collate "C";

        if target_id is null then
            perform pgq._fail_unknown_subscription(unsubscribe.subscription collate "C");
        end if;

        -- As in subscribe. Publishers that know it end before it is gone.
        perform
        from pgq.partition as p
        where p.topic_id = target_id
        order by p.partition
        for update;

        delete from pgq.subscription as s
        where s.subscription = unsubscribe.subscription collate "C"
            and s.topic_id = target_id;

        -- Else it went while this call waited, and there may be another one of its name.
        exit when found;
    end loop;

    update pgq.partition as p
    set followed = t.notify or exists (
        select from pgq.subscription as s where s.topic_id = t.topic_id
    )
    from pgq.topic as t
    where p.topic_id = target_id
        and t.topic_id = p.topic_id;
end
$$;

revoke all on function pgq.unsubscribe from public;

comment on function pgq.unsubscribe(text) is
'Ends a subscription; the jobs that it has made stay.
It waits for transactions that publish to the topic.
Errors: MQ011 unknown subscription, 22004 a required argument is null, 40001 above READ COMMITTED
when another transaction was first (try again).';

create function pgq.list_subscriptions()
returns setof pgq.subscription_info
language sql
stable
parallel safe
security definer
set search_path = pgq, pg_temp
as $$
select i.*
from pgq.subscription as s
cross join lateral pgq._subscription_info(s.subscription) as i
order by s.subscription
$$;

revoke all on function pgq.list_subscriptions from public;

comment on function pgq.list_subscriptions() is
'All subscriptions and their settings, by name.';

create function pgq._deliver(
    partition_id bigint,
    segment integer,
    first_offset bigint,
    last_offset bigint
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
    matched bigint[];
    -- The caller has stored the messages, and so has its transaction id: the floor relies on it.
    moment timestamptz := pgq._clock();
begin
    -- Heard when this transaction commits.
    perform pg_notify('pgq_topic', t.topic)
    from pgq.partition as p
    inner join pgq.topic as t on t.topic_id = p.topic_id
    where p.partition_id = _deliver.partition_id
        and t.notify;

    for target in
        select
            s.filter,
            s.routing_regex,
            q.queue_id,
            q.queue,
            q.notify,
            q.ordered,
            moment + q.delay as visible_at,
            moment + q.job_ttl as expires_at
        from pgq.partition as p
        inner join pgq.subscription as s on s.topic_id = p.topic_id
        inner join pgq.queue as q on q.queue_id = s.queue_id
        where p.partition_id = _deliver.partition_id
        order by q.queue_id
    loop
        if target.filter is null and target.routing_regex is null then
            matched := array(select generate_series(_deliver.first_offset, _deliver.last_offset));
        else
            if _deliver.segment = 0 then
                select array_agg(m.log_offset order by m.log_offset)
                from pgq.message_0 as m
                where m.partition_id = _deliver.partition_id
                    and m.log_offset between _deliver.first_offset and _deliver.last_offset
                    and pgq._matches(m.headers, target.filter, target.routing_regex)
                into matched;
            elsif _deliver.segment = 1 then
                select array_agg(m.log_offset order by m.log_offset)
                from pgq.message_1 as m
                where m.partition_id = _deliver.partition_id
                    and m.log_offset between _deliver.first_offset and _deliver.last_offset
                    and pgq._matches(m.headers, target.filter, target.routing_regex)
                into matched;
            elsif _deliver.segment <= 3 then
                if _deliver.segment <= 2 then
                    select array_agg(m.log_offset order by m.log_offset)
                    from pgq.message_2 as m
                    where m.partition_id = _deliver.partition_id
                        and m.log_offset between _deliver.first_offset and _deliver.last_offset
                        and pgq._matches(m.headers, target.filter, target.routing_regex)
                    into matched;
                else
                    select array_agg(m.log_offset order by m.log_offset)
                    from pgq.message_3 as m
                    where m.partition_id = _deliver.partition_id
                        and m.log_offset between _deliver.first_offset and _deliver.last_offset
                        and pgq._matches(m.headers, target.filter, target.routing_regex)
                    into matched;
                end if;
            elsif _deliver.segment <= 7 then
                if _deliver.segment <= 5 then
                    if _deliver.segment <= 4 then
                        select array_agg(m.log_offset order by m.log_offset)
                        from pgq.message_4 as m
                        where m.partition_id = _deliver.partition_id
                            and m.log_offset between _deliver.first_offset and _deliver.last_offset
                            and pgq._matches(m.headers, target.filter, target.routing_regex)
                        into matched;
                    else
                        select array_agg(m.log_offset order by m.log_offset)
                        from pgq.message_5 as m
                        where m.partition_id = _deliver.partition_id
                            and m.log_offset between _deliver.first_offset and _deliver.last_offset
                            and pgq._matches(m.headers, target.filter, target.routing_regex)
                        into matched;
                    end if;
                else
                    if _deliver.segment <= 6 then
                        select array_agg(m.log_offset order by m.log_offset)
                        from pgq.message_6 as m
                        where m.partition_id = _deliver.partition_id
                            and m.log_offset between _deliver.first_offset and _deliver.last_offset
                            and pgq._matches(m.headers, target.filter, target.routing_regex)
                        into matched;
                    else
                        select array_agg(m.log_offset order by m.log_offset)
                        from pgq.message_7 as m
                        where m.partition_id = _deliver.partition_id
                            and m.log_offset between _deliver.first_offset and _deliver.last_offset
                            and pgq._matches(m.headers, target.filter, target.routing_regex)
                        into matched;
                    end if;
                end if;
            elsif _deliver.segment <= 15 then
                if _deliver.segment <= 11 then
                    if _deliver.segment <= 9 then
                        if _deliver.segment <= 8 then
                            select array_agg(m.log_offset order by m.log_offset)
                            from pgq.message_8 as m
                            where m.partition_id = _deliver.partition_id
                                and m.log_offset between _deliver.first_offset and _deliver.last_offset
                                and pgq._matches(m.headers, target.filter, target.routing_regex)
                            into matched;
                        else
                            select array_agg(m.log_offset order by m.log_offset)
                            from pgq.message_9 as m
                            where m.partition_id = _deliver.partition_id
                                and m.log_offset between _deliver.first_offset and _deliver.last_offset
                                and pgq._matches(m.headers, target.filter, target.routing_regex)
                            into matched;
                        end if;
                    else
                        if _deliver.segment <= 10 then
                            select array_agg(m.log_offset order by m.log_offset)
                            from pgq.message_10 as m
                            where m.partition_id = _deliver.partition_id
                                and m.log_offset between _deliver.first_offset and _deliver.last_offset
                                and pgq._matches(m.headers, target.filter, target.routing_regex)
                            into matched;
                        else
                            select array_agg(m.log_offset order by m.log_offset)
                            from pgq.message_11 as m
                            where m.partition_id = _deliver.partition_id
                                and m.log_offset between _deliver.first_offset and _deliver.last_offset
                                and pgq._matches(m.headers, target.filter, target.routing_regex)
                            into matched;
                        end if;
                    end if;
                else
                    if _deliver.segment <= 13 then
                        if _deliver.segment <= 12 then
                            select array_agg(m.log_offset order by m.log_offset)
                            from pgq.message_12 as m
                            where m.partition_id = _deliver.partition_id
                                and m.log_offset between _deliver.first_offset and _deliver.last_offset
                                and pgq._matches(m.headers, target.filter, target.routing_regex)
                            into matched;
                        else
                            select array_agg(m.log_offset order by m.log_offset)
                            from pgq.message_13 as m
                            where m.partition_id = _deliver.partition_id
                                and m.log_offset between _deliver.first_offset and _deliver.last_offset
                                and pgq._matches(m.headers, target.filter, target.routing_regex)
                            into matched;
                        end if;
                    else
                        if _deliver.segment <= 14 then
                            select array_agg(m.log_offset order by m.log_offset)
                            from pgq.message_14 as m
                            where m.partition_id = _deliver.partition_id
                                and m.log_offset between _deliver.first_offset and _deliver.last_offset
                                and pgq._matches(m.headers, target.filter, target.routing_regex)
                            into matched;
                        else
                            select array_agg(m.log_offset order by m.log_offset)
                            from pgq.message_15 as m
                            where m.partition_id = _deliver.partition_id
                                and m.log_offset between _deliver.first_offset and _deliver.last_offset
                                and pgq._matches(m.headers, target.filter, target.routing_regex)
                            into matched;
                        end if;
                    end if;
                end if;
            else
                execute format($leaf$
                    select array_agg(m.log_offset order by m.log_offset)
                    from pgq.message_%1$s as m
                    where m.partition_id = $1
                        and m.log_offset between $2 and $3
                        and pgq._matches(m.headers, $4, $5)
                $leaf$, _deliver.segment)
                into matched
                using _deliver.partition_id, _deliver.first_offset, _deliver.last_offset, target.filter, target.routing_regex;
            end if;

            continue when matched is null;
        end if;

        -- A row for each job takes almost four times the space of a run in the log of the server
        -- when there are four of them.
        if target.ordered then
            perform pgq._point_ordered(
                target.queue_id,
                _deliver.partition_id,
                _deliver.segment,
                matched,
                target.visible_at,
                target.expires_at
            );
        elsif cardinality(matched) < 4 then
            perform pgq._point_jobs(
                target.queue_id,
                _deliver.partition_id,
                _deliver.segment,
                matched,
                target.visible_at,
                target.expires_at
            );
        else
            perform pgq._add_runs(
                target.queue_id,
                _deliver.partition_id,
                _deliver.segment,
                matched,
                target.visible_at,
                target.expires_at
            );
        end if;

        if target.notify then
            perform pg_notify('pgq_queue', target.queue);
        end if;
    end loop;
end
$$;

revoke all on function pgq._deliver from public;

comment on function pgq._deliver(bigint, integer, bigint, bigint) is
'Tells those who follow a topic of messages that the caller has just stored in a partition, whose
row it has locked: notifies, and adds a job that points at the message to each queue whose
subscription it matches.';

create function pgq._clean_subscriptions()
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
begin
    for target in
        select q.queue_id
        from pgq.queue as q
        where q.subscribed
            and not exists (select from pgq.subscription as s where s.queue_id = q.queue_id)
            and not exists (select from pgq.job_run as r where r.queue_id = q.queue_id)
        for no key update skip locked
    loop
        -- A new statement: subscribe holds the row as well. Publishers who knew a subscription have
        -- ended before it went.
        update pgq.queue as q
        set subscribed = false
        where q.queue_id = target.queue_id
            and not exists (select from pgq.subscription as s where s.queue_id = q.queue_id)
            and not exists (select from pgq.job_run as r where r.queue_id = q.queue_id);
    end loop;
end
$$;

revoke all on function pgq._clean_subscriptions from public;

comment on function pgq._clean_subscriptions() is
'The part of cleanup that lets claims look for runs no more in queues without subscriptions.';

create function pgq._lock_partition(
    topic text,
    partition integer,
    key text,
    may_stage boolean default false
)
returns pgq._partition_state
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    state pgq._partition_state;
    start_at integer;
    partition_count integer;
begin
    if _lock_partition.partition is not null or _lock_partition.key is not null then
        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            p.segment_until,
            p.followed,
            p.deferred
        into state
        from pgq.partition as p
        where p.topic = _lock_partition.topic
            and p.partition = coalesce(
                _lock_partition.partition,
                (
                    select
                        (hashtextextended(_lock_partition.key, 0) % q.partitions + q.partitions)
                        % q.partitions
                    from pgq.partition as q
                    where q.topic = _lock_partition.topic
                        and q.partition = 0
                )
            )
            and not (p.deferred and _lock_partition.may_stage)
        for no key update;
    else
        -- Any that is free, beginning where this session begins at this second.
        start_at := pgq._ring();

        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            p.segment_until,
            p.followed,
            p.deferred
        into state
        from pgq.partition as p
        where p.topic = _lock_partition.topic
            and not (p.deferred and _lock_partition.may_stage)
        order by (start_at - p.ring + 1024) % 1024
        limit 1
        for no key update skip locked;

        if state.partition is null then
            select p.partitions, p.deferred
            into partition_count, state.deferred
            from pgq.partition as p
            where p.topic = _lock_partition.topic
                and p.partition = 0;

            if state.deferred and _lock_partition.may_stage then
                return null;
            end if;

            -- All are held: wait for the one that this session began with.
            if partition_count is not null then
                return pgq._lock_partition(
                    _lock_partition.topic,
                    start_at % partition_count,
                    null,
                    _lock_partition.may_stage
                );
            end if;
        end if;
    end if;

    if state.partition is null then
        perform pgq._fail_unknown_partition(t.topic, _lock_partition.partition, t.partitions)
        from pgq.topic as t
        where t.topic = _lock_partition.topic
            and _lock_partition.partition not between 0 and t.partitions - 1;

        select t.deferred
        into state.deferred
        from pgq.topic as t
        where t.topic = _lock_partition.topic;

        if state.deferred and _lock_partition.may_stage then
            return null;
        end if;
        if state.deferred is not null then
            -- It was dropped and created again while this call waited for it.
            return pgq._lock_partition(
                _lock_partition.topic,
                _lock_partition.partition,
                _lock_partition.key,
                _lock_partition.may_stage
            );
        end if;

        perform pgq._fail_unknown_topic(_lock_partition.topic);
    end if;

    if state.segment_until <= pgq._clock() then
        state := pgq._enter_segment(_lock_partition.topic, state);
    end if;

    if state.deferred then
        -- What is appended directly comes behind all that was committed before.
        perform pgq._assign(_lock_partition.topic, state, null);
    end if;

    return state;
end
$$;

revoke all on function pgq._lock_partition from public;

comment on function pgq._lock_partition(text, integer, text, boolean) is
'Locks the partition that a message goes to until the transaction ends, and says where it stands.
The named one, else the one of the key, else any that is free now. may_stage: null for a deferred
topic, and nothing is locked; else what was staged for its partition gets offsets first. Raises
MQ001, MQ007.';

create or replace function pgq._publish_spread(
    topic text,
    payloads jsonb[],
    keys text[],
    headers jsonb[],
    partition integer,
    keyless integer,
    bodies bytea[]
)
returns setof pgq.offset_range
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
    state pgq._partition_state;
    homes integer[];
    fallback integer;
    stamp timestamptz;
    -- What was found of each partition, by its number, and the offset of each message.
    newest pgq._newest_message;
    first_offsets bigint[];
    next_offsets bigint[];
    ids bigint[];
    segments integer[];
    stamps timestamptz[];
    offsets bigint[] := array_fill(
        null::bigint, array[cardinality(coalesce(_publish_spread.payloads, '{}'))
            + cardinality(coalesce(_publish_spread.bodies, '{}'))]
    );
    home integer;
    leaf integer;
    followed boolean;
    locked integer := 0;
    place integer := 0;
begin
    -- The rows are locked below, and looked at again.
    select p.topic_id, p.partitions, p.deferred
    into target
    from pgq.partition as p
    where p.topic = _publish_spread.topic
        and p.partition = 0;

    if target.topic_id is null then
        perform pgq._fail_unknown_topic(_publish_spread.topic);
    end if;

    -- A bulk write, which says where messages without a key go, is appended directly.
    if target.deferred and _publish_spread.keyless is null then
        return query
        select s.partition, s.first_offset, s.last_offset
        from pgq._stage_batch(
            _publish_spread.topic,
            _publish_spread.payloads,
            _publish_spread.keys,
            _publish_spread.headers,
            _publish_spread.partition,
            _publish_spread.bodies
        ) as s;
        return;
    end if;

    -- Messages without a key go where the caller says, or where one with a key goes, or else where
    -- there is room: taking a free partition besides the keyed ones would break the order in which
    -- locks are taken.
    fallback := coalesce(
        _publish_spread.partition,
        _publish_spread.keyless,
        (
            select (hashtextextended(k.key, 0) % target.partitions + target.partitions)
                % target.partitions
            from unnest(_publish_spread.keys) as k (key)
            where k.key is not null
            limit 1
        )
    );
    if fallback is null or _publish_spread.partition is not null then
        state := pgq._lock_partition(_publish_spread.topic, fallback, null);
        fallback := state.partition;
    end if;

    select array_agg(
        case
            when _publish_spread.partition is not null or k.key is null then fallback
            else (hashtextextended(k.key, 0) % target.partitions + target.partitions)
                % target.partitions
        end
        order by k.position
    )
    into homes
    from (
        select
            generate_series(
                1,
                coalesce(
                    cardinality(_publish_spread.payloads), cardinality(_publish_spread.bodies)
                )
            ) as position,
            unnest(_publish_spread.keys) as key
    ) as k;

    for state in
        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            p.segment_until,
            p.followed,
            p.deferred
        from pgq.partition as p
        where p.topic_id = target.topic_id
            and p.partition = any(homes)
        order by p.partition
        for no key update
    loop
        stamp := pgq._clock();
        if state.segment_until <= stamp then
            state := pgq._enter_segment(_publish_spread.topic, state);
        end if;
        if state.deferred then
            perform pgq._assign(_publish_spread.topic, state, null);
        end if;

        -- A new statement: its snapshot is younger than the lock, so it sees the newest offset.
        newest := pgq._newest(state.partition_id, state.segment, state.segment_first_offset);
        first_offsets[state.partition] := coalesce(
            newest.log_offset + 1, state.segment_first_offset
        );
        ids[state.partition] := state.partition_id;
        segments[state.partition] := state.segment;
        stamps[state.partition] := greatest(
            stamp, newest.published_at, state.segment_entered_at
        );
        followed := state.followed or followed is true;
        locked := locked + 1;
    end loop;

    if locked < (select count(distinct h) from unnest(homes) as h) then
        -- The topic was dropped while this call waited, and perhaps created again.
        return query
        select s.partition, s.first_offset, s.last_offset
        from pgq._publish_spread(
            _publish_spread.topic,
            _publish_spread.payloads,
            _publish_spread.keys,
            _publish_spread.headers,
            _publish_spread.partition,
            _publish_spread.keyless,
            _publish_spread.bodies
        ) as s;
        return;
    end if;

    next_offsets := first_offsets;

    -- In a loop: it takes less time than a window function, which has to sort the messages.
    foreach home in array homes loop
        place := place + 1;
        offsets[place] := next_offsets[home];
        next_offsets[home] := next_offsets[home] + 1;
    end loop;

    -- Usually there is one segment.
    for leaf in
        select distinct g.segment
        from unnest(segments) as g (segment)
        where g.segment is not null
    loop
        if leaf = 0 then
            insert into pgq.message_0 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                (ids)[b.home],
                b.log_offset,
                (stamps)[b.home],
                0,
                b.key,
                b.header,
                b.payload,
                b.body
            from (
                select
                    unnest(homes) as home,
                    unnest(offsets) as log_offset,
                    unnest(_publish_spread.keys) as key,
                    unnest(_publish_spread.headers) as header,
                    unnest(_publish_spread.payloads) as payload,
                    unnest(_publish_spread.bodies) as body
            ) as b
            where (segments)[b.home] = 0;
        elsif leaf = 1 then
            insert into pgq.message_1 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                (ids)[b.home],
                b.log_offset,
                (stamps)[b.home],
                1,
                b.key,
                b.header,
                b.payload,
                b.body
            from (
                select
                    unnest(homes) as home,
                    unnest(offsets) as log_offset,
                    unnest(_publish_spread.keys) as key,
                    unnest(_publish_spread.headers) as header,
                    unnest(_publish_spread.payloads) as payload,
                    unnest(_publish_spread.bodies) as body
            ) as b
            where (segments)[b.home] = 1;
        elsif leaf <= 3 then
            if leaf <= 2 then
                insert into pgq.message_2 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    (ids)[b.home],
                    b.log_offset,
                    (stamps)[b.home],
                    2,
                    b.key,
                    b.header,
                    b.payload,
                    b.body
                from (
                    select
                        unnest(homes) as home,
                        unnest(offsets) as log_offset,
                        unnest(_publish_spread.keys) as key,
                        unnest(_publish_spread.headers) as header,
                        unnest(_publish_spread.payloads) as payload,
                        unnest(_publish_spread.bodies) as body
                ) as b
                where (segments)[b.home] = 2;
            else
                insert into pgq.message_3 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    (ids)[b.home],
                    b.log_offset,
                    (stamps)[b.home],
                    3,
                    b.key,
                    b.header,
                    b.payload,
                    b.body
                from (
                    select
                        unnest(homes) as home,
                        unnest(offsets) as log_offset,
                        unnest(_publish_spread.keys) as key,
                        unnest(_publish_spread.headers) as header,
                        unnest(_publish_spread.payloads) as payload,
                        unnest(_publish_spread.bodies) as body
                ) as b
                where (segments)[b.home] = 3;
            end if;
        elsif leaf <= 7 then
            if leaf <= 5 then
                if leaf <= 4 then
                    insert into pgq.message_4 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        (ids)[b.home],
                        b.log_offset,
                        (stamps)[b.home],
                        4,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            unnest(homes) as home,
                            unnest(offsets) as log_offset,
                            unnest(_publish_spread.keys) as key,
                            unnest(_publish_spread.headers) as header,
                            unnest(_publish_spread.payloads) as payload,
                            unnest(_publish_spread.bodies) as body
                    ) as b
                    where (segments)[b.home] = 4;
                else
                    insert into pgq.message_5 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        (ids)[b.home],
                        b.log_offset,
                        (stamps)[b.home],
                        5,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            unnest(homes) as home,
                            unnest(offsets) as log_offset,
                            unnest(_publish_spread.keys) as key,
                            unnest(_publish_spread.headers) as header,
                            unnest(_publish_spread.payloads) as payload,
                            unnest(_publish_spread.bodies) as body
                    ) as b
                    where (segments)[b.home] = 5;
                end if;
            else
                if leaf <= 6 then
                    insert into pgq.message_6 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        (ids)[b.home],
                        b.log_offset,
                        (stamps)[b.home],
                        6,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            unnest(homes) as home,
                            unnest(offsets) as log_offset,
                            unnest(_publish_spread.keys) as key,
                            unnest(_publish_spread.headers) as header,
                            unnest(_publish_spread.payloads) as payload,
                            unnest(_publish_spread.bodies) as body
                    ) as b
                    where (segments)[b.home] = 6;
                else
                    insert into pgq.message_7 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        (ids)[b.home],
                        b.log_offset,
                        (stamps)[b.home],
                        7,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            unnest(homes) as home,
                            unnest(offsets) as log_offset,
                            unnest(_publish_spread.keys) as key,
                            unnest(_publish_spread.headers) as header,
                            unnest(_publish_spread.payloads) as payload,
                            unnest(_publish_spread.bodies) as body
                    ) as b
                    where (segments)[b.home] = 7;
                end if;
            end if;
        elsif leaf <= 15 then
            if leaf <= 11 then
                if leaf <= 9 then
                    if leaf <= 8 then
                        insert into pgq.message_8 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            b.log_offset,
                            (stamps)[b.home],
                            8,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                unnest(homes) as home,
                                unnest(offsets) as log_offset,
                                unnest(_publish_spread.keys) as key,
                                unnest(_publish_spread.headers) as header,
                                unnest(_publish_spread.payloads) as payload,
                                unnest(_publish_spread.bodies) as body
                        ) as b
                        where (segments)[b.home] = 8;
                    else
                        insert into pgq.message_9 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            b.log_offset,
                            (stamps)[b.home],
                            9,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                unnest(homes) as home,
                                unnest(offsets) as log_offset,
                                unnest(_publish_spread.keys) as key,
                                unnest(_publish_spread.headers) as header,
                                unnest(_publish_spread.payloads) as payload,
                                unnest(_publish_spread.bodies) as body
                        ) as b
                        where (segments)[b.home] = 9;
                    end if;
                else
                    if leaf <= 10 then
                        insert into pgq.message_10 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            b.log_offset,
                            (stamps)[b.home],
                            10,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                unnest(homes) as home,
                                unnest(offsets) as log_offset,
                                unnest(_publish_spread.keys) as key,
                                unnest(_publish_spread.headers) as header,
                                unnest(_publish_spread.payloads) as payload,
                                unnest(_publish_spread.bodies) as body
                        ) as b
                        where (segments)[b.home] = 10;
                    else
                        insert into pgq.message_11 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            b.log_offset,
                            (stamps)[b.home],
                            11,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                unnest(homes) as home,
                                unnest(offsets) as log_offset,
                                unnest(_publish_spread.keys) as key,
                                unnest(_publish_spread.headers) as header,
                                unnest(_publish_spread.payloads) as payload,
                                unnest(_publish_spread.bodies) as body
                        ) as b
                        where (segments)[b.home] = 11;
                    end if;
                end if;
            else
                if leaf <= 13 then
                    if leaf <= 12 then
                        insert into pgq.message_12 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            b.log_offset,
                            (stamps)[b.home],
                            12,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                unnest(homes) as home,
                                unnest(offsets) as log_offset,
                                unnest(_publish_spread.keys) as key,
                                unnest(_publish_spread.headers) as header,
                                unnest(_publish_spread.payloads) as payload,
                                unnest(_publish_spread.bodies) as body
                        ) as b
                        where (segments)[b.home] = 12;
                    else
                        insert into pgq.message_13 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            b.log_offset,
                            (stamps)[b.home],
                            13,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                unnest(homes) as home,
                                unnest(offsets) as log_offset,
                                unnest(_publish_spread.keys) as key,
                                unnest(_publish_spread.headers) as header,
                                unnest(_publish_spread.payloads) as payload,
                                unnest(_publish_spread.bodies) as body
                        ) as b
                        where (segments)[b.home] = 13;
                    end if;
                else
                    if leaf <= 14 then
                        insert into pgq.message_14 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            b.log_offset,
                            (stamps)[b.home],
                            14,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                unnest(homes) as home,
                                unnest(offsets) as log_offset,
                                unnest(_publish_spread.keys) as key,
                                unnest(_publish_spread.headers) as header,
                                unnest(_publish_spread.payloads) as payload,
                                unnest(_publish_spread.bodies) as body
                        ) as b
                        where (segments)[b.home] = 14;
                    else
                        insert into pgq.message_15 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            b.log_offset,
                            (stamps)[b.home],
                            15,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                unnest(homes) as home,
                                unnest(offsets) as log_offset,
                                unnest(_publish_spread.keys) as key,
                                unnest(_publish_spread.headers) as header,
                                unnest(_publish_spread.payloads) as payload,
                                unnest(_publish_spread.bodies) as body
                        ) as b
                        where (segments)[b.home] = 15;
                    end if;
                end if;
            end if;
        else
            execute format($leaf$
                insert into pgq.message_%1$s (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    ($1)[b.home],
                    b.log_offset,
                    ($2)[b.home],
                    %1$s,
                    b.key,
                    b.header,
                    b.payload,
                    b.body
                from (
                    select
                        unnest($3) as home,
                        unnest($4) as log_offset,
                        unnest($5) as key,
                        unnest($6) as header,
                        unnest($7) as payload,
                        unnest($8) as body
                ) as b
                where ($9)[b.home] = %1$s
            $leaf$, leaf)
            using ids, stamps, homes, offsets, _publish_spread.keys, _publish_spread.headers, _publish_spread.payloads, _publish_spread.bodies, segments;
        end if;
    end loop;

    return query
    select g.partition, first_offsets[g.partition], next_offsets[g.partition] - 1
    from generate_subscripts(first_offsets, 1) as g (partition)
    where first_offsets[g.partition] is not null
    order by g.partition;

    if followed then
        perform pgq._deliver(
            ids[g.partition],
            segments[g.partition],
            first_offsets[g.partition],
            next_offsets[g.partition] - 1
        )
        from generate_subscripts(first_offsets, 1) as g (partition)
        where first_offsets[g.partition] is not null;
    end if;
end
$$;

create function pgq._publish_keyed(
    topic text,
    payloads jsonb[],
    keys text[],
    headers jsonb[],
    partition integer,
    idempotency_keys text[],
    bodies bytea[]
)
returns setof pgq.publish_result
language plpgsql
volatile
parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    scope bigint;
    span interval;
    partition_count integer;
    looked boolean := false;
    fallback integer;
    notes pgq._key_notes;
    leaders integer[];
    part record;
    run pgq.publish_batch_result;
    -- Where the message of each place stands.
    homes integer[];
    offsets bigint[];
    place integer;
begin
    -- The transaction id first, then the window: see _note_keys.
    if pg_current_xact_id() is null then
        return;
    end if;

    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        -- An old snapshot may show another window; then 40001. The lock is undone: alter_topic does
        -- not wait for publishers.
        begin
            perform
            from pgq.topic as t
            where t.topic = _publish_keyed.topic
            for share;
            looked := true;
            raise exception 'this lock is not needed any more'
                using errcode = '55P03';
        exception
            when lock_not_available then
                if not looked then
                    raise;
                end if;
        end;
    end if;

    -- Again when the topic was dropped and created again while this waited.
    loop
        select p.partition_id, p.partitions, t.idempotency_window
        into scope, partition_count, span
        from pgq.partition as p
        inner join pgq.topic as t on t.topic_id = p.topic_id
        where p.topic = _publish_keyed.topic
            and p.partition = 0;

        if scope is null then
            perform pgq._fail_unknown_topic(_publish_keyed.topic);
        end if;

        notes := pgq._note_keys(scope, span, _publish_keyed.idempotency_keys);

        exit when exists (select from pgq.partition as p where p.partition_id = scope);
    end loop;

    leaders := notes.leaders;
    homes := array_fill(null::integer, array[cardinality(leaders)]);
    offsets := array_fill(null::bigint, array[cardinality(leaders)]);

    -- As in _publish_spread: those without a key go where one with a key goes, if there is any.
    select (hashtextextended(k.key, 0) % partition_count + partition_count) % partition_count
    into fallback
    from unnest(_publish_keyed.keys) as k (key)
    where k.key is not null
    limit 1;

    -- Partition by partition, in ascending order, so that the offset of each message is known.
    for part in
        select
            b.home,
            array_agg(b.place order by b.place) as places,
            array_agg(b.payload order by b.place) as payloads,
            array_agg(b.key order by b.place) as keys,
            array_agg(b.header order by b.place) as headers,
            array_agg(b.body order by b.place) as bodies
        from (
            select
                g.*,
                coalesce(
                    _publish_keyed.partition,
                    (hashtextextended(g.key, 0) % partition_count + partition_count)
                    % partition_count,
                    fallback
                )::integer as home
            from (
                select
                    generate_series(1, cardinality(leaders)) as place,
                    unnest(leaders) as leader,
                    unnest(_publish_keyed.payloads) as payload,
                    unnest(_publish_keyed.keys) as key,
                    unnest(_publish_keyed.headers) as header,
                    unnest(_publish_keyed.bodies) as body
            ) as g
            where g.leader = g.place
        ) as b
        group by b.home
        order by b.home
    loop
        select r.*
        into run
        from pgq.publish_batch(
            topic => _publish_keyed.topic,
            payloads => case when _publish_keyed.bodies is null then part.payloads end,
            keys => case when part.home is not null then part.keys end,
            headers => part.headers,
            partition => part.home,
            bodies => case when _publish_keyed.bodies is not null then part.bodies end
        ) as r
        limit 1;

        foreach place in array part.places loop
            homes[place] := run.partition;
            offsets[place] := run.first_offset;
            run.first_offset := run.first_offset + 1;
        end loop;
    end loop;

    for n in 1 .. cardinality(leaders) loop
        if leaders[n] < 0 then
            homes[n] := notes.partitions[-leaders[n]];
            offsets[n] := notes.log_offsets[-leaders[n]];
        elsif leaders[n] < n then
            homes[n] := homes[leaders[n]];
            offsets[n] := offsets[leaders[n]];
        end if;
    end loop;

    if run.partition is not null then
        perform pgq._place_keys(
            notes.segments,
            scope,
            array_agg(g.idempotency_key),
            null,
            array_agg(g.partition),
            array_agg(g.log_offset)
        )
        from (
            select
                generate_series(1, cardinality(leaders)) as place,
                unnest(leaders) as leader,
                unnest(_publish_keyed.idempotency_keys) as idempotency_key,
                unnest(homes) as partition,
                unnest(offsets) as log_offset
        ) as g
        where g.leader = g.place
            and g.idempotency_key is not null;

        if not exists (select from pgq.partition as p where p.partition_id = scope) then
            raise exception 'topic "%" was dropped while this call was at work',
                _publish_keyed.topic
                using errcode = 'MQ001';
        end if;
    end if;

    return query
    select g.partition, g.log_offset, g.leader <> g.place
    from (
        select
            generate_series(1, cardinality(leaders)) as place,
            unnest(leaders) as leader,
            unnest(homes) as partition,
            unnest(offsets) as log_offset
    ) as g;
end
$$;

revoke all on function pgq._publish_keyed from public;

comment on function pgq._publish_keyed(
    text, jsonb[], text[], jsonb[], integer, text[], bytea[]
) is
'The part of publish and publish_batch that knows idempotency keys: publishes the messages that are
new, and returns where all of them stand, in the order of the array.';

create function pgq.publish_batch(
    topic text,
    payloads jsonb[] default null,
    keys text[] default null,
    headers jsonb[] default null,
    partition integer default null,
    idempotency_keys text[] default null,
    bodies bytea[] default null
)
returns setof pgq.publish_batch_result
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    size integer;
    state pgq._partition_state;
    published pgq.publish_batch_result;
    newest pgq._newest_message;
    stamp timestamptz;
begin
    size := pgq._check_batch(
        publish_batch.payloads,
        publish_batch.keys collate "C",
        publish_batch.headers,
        null,
        publish_batch.bodies
    );

    if size = 0 or publish_batch.idempotency_keys is not null then
        perform pgq._check_idempotency_keys(
            'idempotency_keys', publish_batch.idempotency_keys collate "C", size
        );
        if size = 0 then
            perform pgq._check_topic(publish_batch.topic collate "C");
            return;
        end if;

        -- What was found may have gaps anywhere.
        return query
        select r.partition, min(r.log_offset), max(r.log_offset), r.duplicate
        from (
            select
                d.*,
                d.log_offset - row_number() over (
                    partition by d.partition, d.duplicate order by d.log_offset
                ) as run
            from (
                select distinct k.partition, k.log_offset, k.duplicate
                from pgq._publish_keyed(
                    publish_batch.topic collate "C",
                    publish_batch.payloads,
                    publish_batch.keys,
                    publish_batch.headers,
                    publish_batch.partition,
                    publish_batch.idempotency_keys,
                    publish_batch.bodies
                ) as k
            ) as d
        ) as r
        group by r.partition, r.duplicate, r.run
        order by r.partition, min(r.log_offset), r.duplicate;
        return;
    end if;

    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        -- The snapshot may be older than the newest message. The index then refuses the offset.
        begin
            return query
            select s.partition, s.first_offset, s.last_offset, false
            from pgq._publish_spread(
                publish_batch.topic collate "C",
                publish_batch.payloads,
                publish_batch.keys,
                publish_batch.headers,
                publish_batch.partition,
                null,
                publish_batch.bodies
            ) as s;
        exception
            when unique_violation then
                raise exception
                    'another transaction has published to topic "%" since this one began',
                    publish_batch.topic
                    using errcode = '40001',
                        hint = 'Try the transaction again, or use READ COMMITTED.';
        end;
        return;
    end if;

    if publish_batch.keys is not null and publish_batch.partition is null then
        return query
        select s.partition, s.first_offset, s.last_offset, false
        from pgq._publish_spread(
            publish_batch.topic collate "C",
            publish_batch.payloads,
            publish_batch.keys,
            publish_batch.headers,
            null,
            null,
            publish_batch.bodies
        ) as s;
        return;
    end if;

    state := pgq._lock_partition(
        publish_batch.topic collate "C", publish_batch.partition, null, true
    );
    if state.partition is null then
        return query
        select s.partition, s.first_offset, s.last_offset, false
        from pgq._stage_batch(
            publish_batch.topic collate "C",
            publish_batch.payloads,
            publish_batch.keys,
            publish_batch.headers,
            publish_batch.partition,
            publish_batch.bodies
        ) as s;
        return;
    end if;

    -- A new statement: its snapshot is younger than the lock, so it sees the newest offset.
    newest := pgq._newest(state.partition_id, state.segment, state.segment_first_offset);

    published.partition := state.partition;
    published.duplicate := false;
    published.first_offset := coalesce(
        newest.log_offset + 1, state.segment_first_offset
    );
    published.last_offset := published.first_offset + size - 1;
    stamp := greatest(pgq._clock(), newest.published_at, state.segment_entered_at);

    -- Functions in one select list run side by side; those of absent arrays give nulls.
    if state.segment = 0 then
        insert into pgq.message_0 (
            partition_id, log_offset, published_at, segment, key, headers, payload, body
        )
        select
            state.partition_id,
            b.log_offset,
            stamp,
            0,
            b.key,
            b.header,
            b.payload,
            b.body
        from (
            select
                generate_series(published.first_offset, published.last_offset) as log_offset,
                unnest(publish_batch.keys) as key,
                unnest(publish_batch.headers) as header,
                unnest(publish_batch.payloads) as payload,
                unnest(publish_batch.bodies) as body
        ) as b;
    elsif state.segment = 1 then
        insert into pgq.message_1 (
            partition_id, log_offset, published_at, segment, key, headers, payload, body
        )
        select
            state.partition_id,
            b.log_offset,
            stamp,
            1,
            b.key,
            b.header,
            b.payload,
            b.body
        from (
            select
                generate_series(published.first_offset, published.last_offset) as log_offset,
                unnest(publish_batch.keys) as key,
                unnest(publish_batch.headers) as header,
                unnest(publish_batch.payloads) as payload,
                unnest(publish_batch.bodies) as body
        ) as b;
    elsif state.segment <= 3 then
        if state.segment <= 2 then
            insert into pgq.message_2 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                state.partition_id,
                b.log_offset,
                stamp,
                2,
                b.key,
                b.header,
                b.payload,
                b.body
            from (
                select
                    generate_series(published.first_offset, published.last_offset) as log_offset,
                    unnest(publish_batch.keys) as key,
                    unnest(publish_batch.headers) as header,
                    unnest(publish_batch.payloads) as payload,
                    unnest(publish_batch.bodies) as body
            ) as b;
        else
            insert into pgq.message_3 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                state.partition_id,
                b.log_offset,
                stamp,
                3,
                b.key,
                b.header,
                b.payload,
                b.body
            from (
                select
                    generate_series(published.first_offset, published.last_offset) as log_offset,
                    unnest(publish_batch.keys) as key,
                    unnest(publish_batch.headers) as header,
                    unnest(publish_batch.payloads) as payload,
                    unnest(publish_batch.bodies) as body
            ) as b;
        end if;
    elsif state.segment <= 7 then
        if state.segment <= 5 then
            if state.segment <= 4 then
                insert into pgq.message_4 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    state.partition_id,
                    b.log_offset,
                    stamp,
                    4,
                    b.key,
                    b.header,
                    b.payload,
                    b.body
                from (
                    select
                        generate_series(published.first_offset, published.last_offset) as log_offset,
                        unnest(publish_batch.keys) as key,
                        unnest(publish_batch.headers) as header,
                        unnest(publish_batch.payloads) as payload,
                        unnest(publish_batch.bodies) as body
                ) as b;
            else
                insert into pgq.message_5 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    state.partition_id,
                    b.log_offset,
                    stamp,
                    5,
                    b.key,
                    b.header,
                    b.payload,
                    b.body
                from (
                    select
                        generate_series(published.first_offset, published.last_offset) as log_offset,
                        unnest(publish_batch.keys) as key,
                        unnest(publish_batch.headers) as header,
                        unnest(publish_batch.payloads) as payload,
                        unnest(publish_batch.bodies) as body
                ) as b;
            end if;
        else
            if state.segment <= 6 then
                insert into pgq.message_6 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    state.partition_id,
                    b.log_offset,
                    stamp,
                    6,
                    b.key,
                    b.header,
                    b.payload,
                    b.body
                from (
                    select
                        generate_series(published.first_offset, published.last_offset) as log_offset,
                        unnest(publish_batch.keys) as key,
                        unnest(publish_batch.headers) as header,
                        unnest(publish_batch.payloads) as payload,
                        unnest(publish_batch.bodies) as body
                ) as b;
            else
                insert into pgq.message_7 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    state.partition_id,
                    b.log_offset,
                    stamp,
                    7,
                    b.key,
                    b.header,
                    b.payload,
                    b.body
                from (
                    select
                        generate_series(published.first_offset, published.last_offset) as log_offset,
                        unnest(publish_batch.keys) as key,
                        unnest(publish_batch.headers) as header,
                        unnest(publish_batch.payloads) as payload,
                        unnest(publish_batch.bodies) as body
                ) as b;
            end if;
        end if;
    elsif state.segment <= 15 then
        if state.segment <= 11 then
            if state.segment <= 9 then
                if state.segment <= 8 then
                    insert into pgq.message_8 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        8,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(published.first_offset, published.last_offset) as log_offset,
                            unnest(publish_batch.keys) as key,
                            unnest(publish_batch.headers) as header,
                            unnest(publish_batch.payloads) as payload,
                            unnest(publish_batch.bodies) as body
                    ) as b;
                else
                    insert into pgq.message_9 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        9,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(published.first_offset, published.last_offset) as log_offset,
                            unnest(publish_batch.keys) as key,
                            unnest(publish_batch.headers) as header,
                            unnest(publish_batch.payloads) as payload,
                            unnest(publish_batch.bodies) as body
                    ) as b;
                end if;
            else
                if state.segment <= 10 then
                    insert into pgq.message_10 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        10,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(published.first_offset, published.last_offset) as log_offset,
                            unnest(publish_batch.keys) as key,
                            unnest(publish_batch.headers) as header,
                            unnest(publish_batch.payloads) as payload,
                            unnest(publish_batch.bodies) as body
                    ) as b;
                else
                    insert into pgq.message_11 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        11,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(published.first_offset, published.last_offset) as log_offset,
                            unnest(publish_batch.keys) as key,
                            unnest(publish_batch.headers) as header,
                            unnest(publish_batch.payloads) as payload,
                            unnest(publish_batch.bodies) as body
                    ) as b;
                end if;
            end if;
        else
            if state.segment <= 13 then
                if state.segment <= 12 then
                    insert into pgq.message_12 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        12,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(published.first_offset, published.last_offset) as log_offset,
                            unnest(publish_batch.keys) as key,
                            unnest(publish_batch.headers) as header,
                            unnest(publish_batch.payloads) as payload,
                            unnest(publish_batch.bodies) as body
                    ) as b;
                else
                    insert into pgq.message_13 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        13,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(published.first_offset, published.last_offset) as log_offset,
                            unnest(publish_batch.keys) as key,
                            unnest(publish_batch.headers) as header,
                            unnest(publish_batch.payloads) as payload,
                            unnest(publish_batch.bodies) as body
                    ) as b;
                end if;
            else
                if state.segment <= 14 then
                    insert into pgq.message_14 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        14,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(published.first_offset, published.last_offset) as log_offset,
                            unnest(publish_batch.keys) as key,
                            unnest(publish_batch.headers) as header,
                            unnest(publish_batch.payloads) as payload,
                            unnest(publish_batch.bodies) as body
                    ) as b;
                else
                    insert into pgq.message_15 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        15,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(published.first_offset, published.last_offset) as log_offset,
                            unnest(publish_batch.keys) as key,
                            unnest(publish_batch.headers) as header,
                            unnest(publish_batch.payloads) as payload,
                            unnest(publish_batch.bodies) as body
                    ) as b;
                end if;
            end if;
        end if;
    else
        execute format($leaf$
            insert into pgq.message_%1$s (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                $1,
                b.log_offset,
                $2,
                %1$s,
                b.key,
                b.header,
                b.payload,
                b.body
            from (
                select
                    generate_series($3, $4) as log_offset,
                    unnest($5) as key,
                    unnest($6) as header,
                    unnest($7) as payload,
                    unnest($8) as body
            ) as b
        $leaf$, state.segment)
        using state.partition_id, stamp, published.first_offset, published.last_offset, publish_batch.keys, publish_batch.headers, publish_batch.payloads, publish_batch.bodies;
    end if;

    if state.followed then
        perform pgq._deliver(
            state.partition_id, state.segment, published.first_offset, published.last_offset
        );
    end if;

    return next published;
end
$$;

revoke all on function pgq.publish_batch from public;

comment on function pgq.publish_batch(
    text, jsonb[], text[], jsonb[], integer, text[], bytea[]
) is
'Appends messages to a topic, all or none, and returns where they stand.
There is a row for each run of messages that follow each other in a partition; without duplicates
that is one for each partition that got any.
Pass payloads (JSON) or bodies (raw bytes), not both; keys, headers and idempotency_keys are
optional and of the same length. With a partition named, all go there; else each goes to the
partition of its key; without keys, all go to one partition that is free. In each partition they
stand in the order of the array. The partitions are locked for other publishers until the
transaction ends. An idempotency key may be null: none. A message whose idempotency key was given
before, see publish, or stands further in front in the array, is not written; rows with duplicate =
true say where such ones stand. An empty array writes nothing. In a deferred topic nothing is
locked, and the offsets are null: see create_topic.
Errors: MQ001 unknown topic, MQ007 unknown partition, 22004 a required argument is null, no
content, or a null in it, 22023 two contents, arrays of other lengths, headers that are no objects,
or a bad idempotency key, 40001 above READ COMMITTED when another transaction was first (try
again).';

create function pgq.publish(
    topic text,
    payload jsonb default null,
    key text default null,
    headers jsonb default null,
    partition integer default null,
    idempotency_key text default null,
    body bytea default null
)
returns setof pgq.publish_result
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    place integer;
    home_id bigint;
    xid bigint;
    leaf integer;
    first_offset bigint;
    entered_at timestamptz;
    until timestamptz;
    newest_offset bigint;
    newest_at timestamptz;
    followed boolean;
    state pgq._partition_state;
    published pgq.publish_result;
begin
    if (publish.payload is null) = (publish.body is null)
        or publish.headers is not null
        or publish.idempotency_key is not null
        or current_setting('transaction_isolation') in ('repeatable read', 'serializable')
        or publish.topic collate "C" = current_setting('pgq.deferred_topic', true)
    then
        if (publish.payload is null) = (publish.body is null)
            or publish.headers is not null
            or publish.idempotency_key is not null
            or current_setting('transaction_isolation') in ('repeatable read', 'serializable')
        then
            perform pgq._check_content(publish.payload, publish.headers, publish.body);

            if publish.idempotency_key is not null then
                perform pgq._check_idempotency_keys(
                    'idempotency_key', array[publish.idempotency_key collate "C"], 1
                );
                return query
                select k.partition, k.log_offset, k.duplicate
                from pgq._publish_keyed(
                    publish.topic collate "C",
                    case when publish.payload is not null then array[publish.payload] end,
                    array[publish.key],
                    array[publish.headers],
                    publish.partition,
                    array[publish.idempotency_key],
                    case when publish.body is not null then array[publish.body] end
                ) as k;
                return;
            end if;

            if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
                return query
                select b.partition, b.first_offset, b.duplicate
                from pgq.publish_batch(
                    topic => publish.topic,
                    payloads => case
                        when publish.payload is not null then array[publish.payload]
                    end,
                    keys => array[publish.key],
                    headers => array[publish.headers],
                    partition => publish.partition,
                    bodies => case when publish.body is not null then array[publish.body] end
                ) as b;
                return;
            end if;
        end if;

        -- The topic that this session last found to be deferred: a hint, which saves a statement
        -- that would lock. The transaction id comes first, and the segment is read only then: see
        -- _close_segments.
        if publish.topic collate "C" = current_setting('pgq.deferred_topic', true) then
            xid := pg_current_xact_id()::text::bigint;

            if publish.partition is null and publish.key is null then
                select
                    p.partition,
                    (p.partition_id << 40) + (xid & 1099511627775),
                    p.segment,
                    p.followed,
                    nextval('pgq.staged_number') << 20
                into published.partition, home_id, leaf, followed, first_offset
                from pgq.partition as p
                where p.topic = publish.topic collate "C"
                    and p.ring <= pgq._ring()
                    and p.deferred
                order by p.ring desc
                limit 1;
            else
                select
                    p.partition,
                    (p.partition_id << 40) + (xid & 1099511627775),
                    p.segment,
                    p.followed,
                    nextval('pgq.staged_number') << 20
                into published.partition, home_id, leaf, followed, first_offset
                from pgq.partition as p
                where p.topic = publish.topic collate "C"
                    and p.partition = coalesce(
                        publish.partition,
                        (
                            select
                                (hashtextextended(publish.key collate "C", 0) % q.partitions
                                    + q.partitions)
                                % q.partitions
                            from pgq.partition as q
                            where q.topic = publish.topic collate "C"
                                and q.partition = 0
                        )
                    )
                    and p.deferred;
            end if;

            if home_id is not null then
                if leaf = 0 then
                    insert into pgq.message_0 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        home_id,
                        first_offset,
                        pgq._clock(),
                        0,
                        publish.key,
                        publish.headers,
                        publish.payload,
                        publish.body
                    );
                elsif leaf = 1 then
                    insert into pgq.message_1 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        home_id,
                        first_offset,
                        pgq._clock(),
                        1,
                        publish.key,
                        publish.headers,
                        publish.payload,
                        publish.body
                    );
                elsif leaf <= 3 then
                    if leaf <= 2 then
                        insert into pgq.message_2 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        values (
                            home_id,
                            first_offset,
                            pgq._clock(),
                            2,
                            publish.key,
                            publish.headers,
                            publish.payload,
                            publish.body
                        );
                    else
                        insert into pgq.message_3 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        values (
                            home_id,
                            first_offset,
                            pgq._clock(),
                            3,
                            publish.key,
                            publish.headers,
                            publish.payload,
                            publish.body
                        );
                    end if;
                elsif leaf <= 7 then
                    if leaf <= 5 then
                        if leaf <= 4 then
                            insert into pgq.message_4 (
                                partition_id, log_offset, published_at, segment, key, headers, payload, body
                            )
                            values (
                                home_id,
                                first_offset,
                                pgq._clock(),
                                4,
                                publish.key,
                                publish.headers,
                                publish.payload,
                                publish.body
                            );
                        else
                            insert into pgq.message_5 (
                                partition_id, log_offset, published_at, segment, key, headers, payload, body
                            )
                            values (
                                home_id,
                                first_offset,
                                pgq._clock(),
                                5,
                                publish.key,
                                publish.headers,
                                publish.payload,
                                publish.body
                            );
                        end if;
                    else
                        if leaf <= 6 then
                            insert into pgq.message_6 (
                                partition_id, log_offset, published_at, segment, key, headers, payload, body
                            )
                            values (
                                home_id,
                                first_offset,
                                pgq._clock(),
                                6,
                                publish.key,
                                publish.headers,
                                publish.payload,
                                publish.body
                            );
                        else
                            insert into pgq.message_7 (
                                partition_id, log_offset, published_at, segment, key, headers, payload, body
                            )
                            values (
                                home_id,
                                first_offset,
                                pgq._clock(),
                                7,
                                publish.key,
                                publish.headers,
                                publish.payload,
                                publish.body
                            );
                        end if;
                    end if;
                elsif leaf <= 15 then
                    if leaf <= 11 then
                        if leaf <= 9 then
                            if leaf <= 8 then
                                insert into pgq.message_8 (
                                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                                )
                                values (
                                    home_id,
                                    first_offset,
                                    pgq._clock(),
                                    8,
                                    publish.key,
                                    publish.headers,
                                    publish.payload,
                                    publish.body
                                );
                            else
                                insert into pgq.message_9 (
                                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                                )
                                values (
                                    home_id,
                                    first_offset,
                                    pgq._clock(),
                                    9,
                                    publish.key,
                                    publish.headers,
                                    publish.payload,
                                    publish.body
                                );
                            end if;
                        else
                            if leaf <= 10 then
                                insert into pgq.message_10 (
                                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                                )
                                values (
                                    home_id,
                                    first_offset,
                                    pgq._clock(),
                                    10,
                                    publish.key,
                                    publish.headers,
                                    publish.payload,
                                    publish.body
                                );
                            else
                                insert into pgq.message_11 (
                                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                                )
                                values (
                                    home_id,
                                    first_offset,
                                    pgq._clock(),
                                    11,
                                    publish.key,
                                    publish.headers,
                                    publish.payload,
                                    publish.body
                                );
                            end if;
                        end if;
                    else
                        if leaf <= 13 then
                            if leaf <= 12 then
                                insert into pgq.message_12 (
                                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                                )
                                values (
                                    home_id,
                                    first_offset,
                                    pgq._clock(),
                                    12,
                                    publish.key,
                                    publish.headers,
                                    publish.payload,
                                    publish.body
                                );
                            else
                                insert into pgq.message_13 (
                                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                                )
                                values (
                                    home_id,
                                    first_offset,
                                    pgq._clock(),
                                    13,
                                    publish.key,
                                    publish.headers,
                                    publish.payload,
                                    publish.body
                                );
                            end if;
                        else
                            if leaf <= 14 then
                                insert into pgq.message_14 (
                                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                                )
                                values (
                                    home_id,
                                    first_offset,
                                    pgq._clock(),
                                    14,
                                    publish.key,
                                    publish.headers,
                                    publish.payload,
                                    publish.body
                                );
                            else
                                insert into pgq.message_15 (
                                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                                )
                                values (
                                    home_id,
                                    first_offset,
                                    pgq._clock(),
                                    15,
                                    publish.key,
                                    publish.headers,
                                    publish.payload,
                                    publish.body
                                );
                            end if;
                        end if;
                    end if;
                else
                    execute format($leaf$
                        insert into pgq.message_%1$s (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        values (
                            $1,
                            $2,
                            pgq._clock(),
                            %1$s,
                            $3,
                            $4,
                            $5,
                            $6
                        )
                    $leaf$, leaf)
                    using home_id, first_offset, publish.key, publish.headers, publish.payload, publish.body;
                end if;

                if followed then
                    perform pg_notify('pgq_topic', publish.topic);
                end if;
                published.duplicate := false;
                return next published;
                return;
            end if;
        end if;
    end if;

    -- The usual case in one statement; _lock_partition knows the others. The one place where
    -- another partition than the nearest free one is worth the wait is behind a key.
    if publish.partition is null and publish.key is null then
        place := pgq._ring();

        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            p.segment_until,
            p.followed,
            false
        into
            published.partition,
            home_id,
            leaf,
            first_offset,
            entered_at,
            until,
            followed,
            published.duplicate
        from pgq.partition as p
        where p.topic = publish.topic collate "C"
            and p.ring <= place
            and not p.deferred
        order by p.ring desc
        limit 1
        for no key update skip locked;
    else
        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            p.segment_until,
            p.followed,
            false
        into
            published.partition,
            home_id,
            leaf,
            first_offset,
            entered_at,
            until,
            followed,
            published.duplicate
        from pgq.partition as p
        where p.topic = publish.topic collate "C"
            and p.partition = coalesce(
                publish.partition,
                (
                    select
                        (hashtextextended(publish.key collate "C", 0) % q.partitions + q.partitions)
                        % q.partitions
                    from pgq.partition as q
                    where q.topic = publish.topic collate "C"
                        and q.partition = 0
                )
            )
            and not p.deferred
        for no key update;
    end if;

    if (until > pgq._clock() and not followed) is not true then
        if home_id is null
            and publish.topic collate "C" is distinct from
            current_setting('pgq.deferred_topic', true)
        then
            -- No partition is free, or the topic is deferred: then it is not looked at again as
            -- long as this session publishes to it.
            perform set_config('pgq.deferred_topic', p.topic, false)
            from pgq.partition as p
            where p.topic = publish.topic collate "C"
                and p.partition = 0
                and p.deferred;

            if found then
                return query
                select s.*
                from pgq.publish(
                    topic => publish.topic,
                    payload => publish.payload,
                    key => publish.key,
                    headers => publish.headers,
                    partition => publish.partition,
                    body => publish.body
                ) as s;
                return;
            end if;
        end if;

        if (until > pgq._clock()) is not true then
            state := pgq._lock_partition(publish.topic collate "C", publish.partition, publish.key);
            published.partition := state.partition;
            published.duplicate := false;
            home_id := state.partition_id;
            leaf := state.segment;
            first_offset := state.segment_first_offset;
            entered_at := state.segment_entered_at;
            followed := state.followed;
        end if;
        if followed then
            -- The partition is locked by now.
            return query
            select b.partition, b.first_offset, b.duplicate
            from pgq.publish_batch(
                topic => publish.topic,
                payloads => case when publish.payload is not null then array[publish.payload] end,
                keys => array[publish.key],
                headers => array[publish.headers],
                partition => published.partition,
                bodies => case when publish.body is not null then array[publish.body] end
            ) as b;
            return;
        end if;
    end if;

    -- A new statement: its snapshot is younger than the lock, so it sees the newest offset.
    -- Two plain statements take less time than one that joins.
    if leaf = 0 then
        select m.log_offset, m.published_at
        from pgq.message_0 as m
        where m.partition_id = home_id
            and m.log_offset >= first_offset
        order by m.log_offset desc
        limit 1
        into newest_offset, newest_at;
        insert into pgq.message_0 (
            partition_id, log_offset, published_at, segment, key, headers, payload, body
        )
        values (
            home_id,
            coalesce(newest_offset + 1, first_offset),
            greatest(pgq._clock(), newest_at, entered_at),
            0,
            publish.key,
            publish.headers,
            publish.payload,
            publish.body
        );
    elsif leaf = 1 then
        select m.log_offset, m.published_at
        from pgq.message_1 as m
        where m.partition_id = home_id
            and m.log_offset >= first_offset
        order by m.log_offset desc
        limit 1
        into newest_offset, newest_at;
        insert into pgq.message_1 (
            partition_id, log_offset, published_at, segment, key, headers, payload, body
        )
        values (
            home_id,
            coalesce(newest_offset + 1, first_offset),
            greatest(pgq._clock(), newest_at, entered_at),
            1,
            publish.key,
            publish.headers,
            publish.payload,
            publish.body
        );
    elsif leaf <= 3 then
        if leaf <= 2 then
            select m.log_offset, m.published_at
            from pgq.message_2 as m
            where m.partition_id = home_id
                and m.log_offset >= first_offset
            order by m.log_offset desc
            limit 1
            into newest_offset, newest_at;
            insert into pgq.message_2 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            values (
                home_id,
                coalesce(newest_offset + 1, first_offset),
                greatest(pgq._clock(), newest_at, entered_at),
                2,
                publish.key,
                publish.headers,
                publish.payload,
                publish.body
            );
        else
            select m.log_offset, m.published_at
            from pgq.message_3 as m
            where m.partition_id = home_id
                and m.log_offset >= first_offset
            order by m.log_offset desc
            limit 1
            into newest_offset, newest_at;
            insert into pgq.message_3 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            values (
                home_id,
                coalesce(newest_offset + 1, first_offset),
                greatest(pgq._clock(), newest_at, entered_at),
                3,
                publish.key,
                publish.headers,
                publish.payload,
                publish.body
            );
        end if;
    elsif leaf <= 7 then
        if leaf <= 5 then
            if leaf <= 4 then
                select m.log_offset, m.published_at
                from pgq.message_4 as m
                where m.partition_id = home_id
                    and m.log_offset >= first_offset
                order by m.log_offset desc
                limit 1
                into newest_offset, newest_at;
                insert into pgq.message_4 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                values (
                    home_id,
                    coalesce(newest_offset + 1, first_offset),
                    greatest(pgq._clock(), newest_at, entered_at),
                    4,
                    publish.key,
                    publish.headers,
                    publish.payload,
                    publish.body
                );
            else
                select m.log_offset, m.published_at
                from pgq.message_5 as m
                where m.partition_id = home_id
                    and m.log_offset >= first_offset
                order by m.log_offset desc
                limit 1
                into newest_offset, newest_at;
                insert into pgq.message_5 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                values (
                    home_id,
                    coalesce(newest_offset + 1, first_offset),
                    greatest(pgq._clock(), newest_at, entered_at),
                    5,
                    publish.key,
                    publish.headers,
                    publish.payload,
                    publish.body
                );
            end if;
        else
            if leaf <= 6 then
                select m.log_offset, m.published_at
                from pgq.message_6 as m
                where m.partition_id = home_id
                    and m.log_offset >= first_offset
                order by m.log_offset desc
                limit 1
                into newest_offset, newest_at;
                insert into pgq.message_6 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                values (
                    home_id,
                    coalesce(newest_offset + 1, first_offset),
                    greatest(pgq._clock(), newest_at, entered_at),
                    6,
                    publish.key,
                    publish.headers,
                    publish.payload,
                    publish.body
                );
            else
                select m.log_offset, m.published_at
                from pgq.message_7 as m
                where m.partition_id = home_id
                    and m.log_offset >= first_offset
                order by m.log_offset desc
                limit 1
                into newest_offset, newest_at;
                insert into pgq.message_7 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                values (
                    home_id,
                    coalesce(newest_offset + 1, first_offset),
                    greatest(pgq._clock(), newest_at, entered_at),
                    7,
                    publish.key,
                    publish.headers,
                    publish.payload,
                    publish.body
                );
            end if;
        end if;
    elsif leaf <= 15 then
        if leaf <= 11 then
            if leaf <= 9 then
                if leaf <= 8 then
                    select m.log_offset, m.published_at
                    from pgq.message_8 as m
                    where m.partition_id = home_id
                        and m.log_offset >= first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest_offset, newest_at;
                    insert into pgq.message_8 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        home_id,
                        coalesce(newest_offset + 1, first_offset),
                        greatest(pgq._clock(), newest_at, entered_at),
                        8,
                        publish.key,
                        publish.headers,
                        publish.payload,
                        publish.body
                    );
                else
                    select m.log_offset, m.published_at
                    from pgq.message_9 as m
                    where m.partition_id = home_id
                        and m.log_offset >= first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest_offset, newest_at;
                    insert into pgq.message_9 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        home_id,
                        coalesce(newest_offset + 1, first_offset),
                        greatest(pgq._clock(), newest_at, entered_at),
                        9,
                        publish.key,
                        publish.headers,
                        publish.payload,
                        publish.body
                    );
                end if;
            else
                if leaf <= 10 then
                    select m.log_offset, m.published_at
                    from pgq.message_10 as m
                    where m.partition_id = home_id
                        and m.log_offset >= first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest_offset, newest_at;
                    insert into pgq.message_10 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        home_id,
                        coalesce(newest_offset + 1, first_offset),
                        greatest(pgq._clock(), newest_at, entered_at),
                        10,
                        publish.key,
                        publish.headers,
                        publish.payload,
                        publish.body
                    );
                else
                    select m.log_offset, m.published_at
                    from pgq.message_11 as m
                    where m.partition_id = home_id
                        and m.log_offset >= first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest_offset, newest_at;
                    insert into pgq.message_11 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        home_id,
                        coalesce(newest_offset + 1, first_offset),
                        greatest(pgq._clock(), newest_at, entered_at),
                        11,
                        publish.key,
                        publish.headers,
                        publish.payload,
                        publish.body
                    );
                end if;
            end if;
        else
            if leaf <= 13 then
                if leaf <= 12 then
                    select m.log_offset, m.published_at
                    from pgq.message_12 as m
                    where m.partition_id = home_id
                        and m.log_offset >= first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest_offset, newest_at;
                    insert into pgq.message_12 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        home_id,
                        coalesce(newest_offset + 1, first_offset),
                        greatest(pgq._clock(), newest_at, entered_at),
                        12,
                        publish.key,
                        publish.headers,
                        publish.payload,
                        publish.body
                    );
                else
                    select m.log_offset, m.published_at
                    from pgq.message_13 as m
                    where m.partition_id = home_id
                        and m.log_offset >= first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest_offset, newest_at;
                    insert into pgq.message_13 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        home_id,
                        coalesce(newest_offset + 1, first_offset),
                        greatest(pgq._clock(), newest_at, entered_at),
                        13,
                        publish.key,
                        publish.headers,
                        publish.payload,
                        publish.body
                    );
                end if;
            else
                if leaf <= 14 then
                    select m.log_offset, m.published_at
                    from pgq.message_14 as m
                    where m.partition_id = home_id
                        and m.log_offset >= first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest_offset, newest_at;
                    insert into pgq.message_14 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        home_id,
                        coalesce(newest_offset + 1, first_offset),
                        greatest(pgq._clock(), newest_at, entered_at),
                        14,
                        publish.key,
                        publish.headers,
                        publish.payload,
                        publish.body
                    );
                else
                    select m.log_offset, m.published_at
                    from pgq.message_15 as m
                    where m.partition_id = home_id
                        and m.log_offset >= first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest_offset, newest_at;
                    insert into pgq.message_15 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        home_id,
                        coalesce(newest_offset + 1, first_offset),
                        greatest(pgq._clock(), newest_at, entered_at),
                        15,
                        publish.key,
                        publish.headers,
                        publish.payload,
                        publish.body
                    );
                end if;
            end if;
        end if;
    else
        execute format($leaf$
            select m.log_offset, m.published_at
            from pgq.message_%1$s as m
            where m.partition_id = $1
                and m.log_offset >= $2
            order by m.log_offset desc
            limit 1
        $leaf$, leaf)
        into newest_offset, newest_at
        using home_id, first_offset;
        execute format($leaf$
            insert into pgq.message_%1$s (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            values (
                $1,
                coalesce($2 + 1, $3),
                greatest(pgq._clock(), $4, $5),
                %1$s,
                $6,
                $7,
                $8,
                $9
            )
        $leaf$, leaf)
        using home_id, newest_offset, first_offset, newest_at, entered_at, publish.key, publish.headers, publish.payload, publish.body;
    end if;

    published.log_offset := coalesce(newest_offset + 1, first_offset);
    return next published;
end
$$;

revoke all on function pgq.publish from public;

comment on function pgq.publish(text, jsonb, text, jsonb, integer, text, bytea) is
'Appends one message to a topic, and returns its partition and offset.
Pass payload (JSON) or body (raw bytes), not both. The message goes to the partition that is
named, else to the one that its key belongs to, else to any that is free. That partition is then
locked for other publishers until the transaction ends: publish last, or commit soon. An
idempotency_key (1 to 255 characters) stands for the message that it was given with first, in
whichever partition, for the idempotency_window of the topic: another call with it writes nothing,
whatever its other arguments are, and returns where that message stands as a duplicate. It waits for
a transaction that is publishing that message. In a deferred topic nothing is locked, and log_offset
is null: see create_topic.
Errors: MQ001 unknown topic, MQ007 unknown partition, 22004 a required argument is null, or no
content, 22023 two contents, headers that are no object, or a bad idempotency_key, 40001 above READ
COMMITTED when another transaction was first (try again).';

create function pgq._staged_since(partition_id bigint)
returns pgq._staged_since
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    noted pgq.assignment;
    since pgq._staged_since;
    snapshot pg_snapshot := pg_current_snapshot();
    -- Ids of transactions count modulo 2^40 here; higher bits would meet those of the partition.
    slots bigint := 1099511627776;
    next_xid bigint := pg_snapshot_xmax(snapshot)::text::bigint;
    own_xid bigint := pg_current_xact_id_if_assigned()::text::bigint;
begin
    select a.*
    into noted
    from pgq.assignment as a
    where a.partition_id = _staged_since.partition_id
    order by a.seq desc
    limit 1;

    since.seq := coalesce(noted.seq, 0);
    since.lowest := _staged_since.partition_id << 40;
    since.ids := '{}';
    since.system_identifier := case
        when noted.server_started = pg_postmaster_start_time() then noted.system_identifier
        else (select c.system_identifier from pg_control_system() as c)
    end;
    if noted.system_identifier = since.system_identifier
        and noted.next_xid::text::bigint / slots = next_xid / slots
        and noted.next_xid::text::bigint <= next_xid
    then
        since.lowest := since.lowest + noted.next_xid::text::bigint % slots;
        -- Those that have ended since.
        since.ids := array(
            select (_staged_since.partition_id << 40) + x.xid::text::bigint % slots
            from unnest(noted.open_xids) as x (xid)
            where pg_visible_in_snapshot(x.xid, snapshot)
        );
    end if;

    -- This transaction may publish more.
    since.next_xid := next_xid::text::xid8;
    since.open_xids := array(
        select x.xid
        from pg_snapshot_xip(snapshot) as x (xid)
    ) || case when own_xid < next_xid then array[own_xid::text::xid8] else '{}' end;
    return since;
end
$$;

revoke all on function pgq._staged_since from public;

comment on function pgq._staged_since(bigint) is
'Where to look for what was staged for a partition and has no offsets yet. The partition_id of a
staged message is that of its partition times 2^40, plus the id of the transaction. That this leads
to them in few steps is all that it is for: what is found there has no offset, whatever else is
true. So it does no harm to look too far back.';

create function pgq._has_staged(partition_id bigint, segment integer, since pgq._staged_since)
returns boolean
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    lowest bigint := (_has_staged.since).lowest;
    above bigint := (_has_staged.partition_id + 1) << 40;
    ids bigint[] := (_has_staged.since).ids;
    is_there boolean;
begin
    if _has_staged.segment = 0 then
        select
            exists (
                select
                from pgq.message_0 as m
                where m.partition_id >= lowest
                    and m.partition_id < above
            )
            or exists (
                select
                from unnest(ids) as i (id)
                cross join lateral (
                    select
                    from pgq.message_0 as m
                    where m.partition_id = i.id
                    limit 1
                ) as f
            )
        into is_there;
    elsif _has_staged.segment = 1 then
        select
            exists (
                select
                from pgq.message_1 as m
                where m.partition_id >= lowest
                    and m.partition_id < above
            )
            or exists (
                select
                from unnest(ids) as i (id)
                cross join lateral (
                    select
                    from pgq.message_1 as m
                    where m.partition_id = i.id
                    limit 1
                ) as f
            )
        into is_there;
    elsif _has_staged.segment <= 3 then
        if _has_staged.segment <= 2 then
            select
                exists (
                    select
                    from pgq.message_2 as m
                    where m.partition_id >= lowest
                        and m.partition_id < above
                )
                or exists (
                    select
                    from unnest(ids) as i (id)
                    cross join lateral (
                        select
                        from pgq.message_2 as m
                        where m.partition_id = i.id
                        limit 1
                    ) as f
                )
            into is_there;
        else
            select
                exists (
                    select
                    from pgq.message_3 as m
                    where m.partition_id >= lowest
                        and m.partition_id < above
                )
                or exists (
                    select
                    from unnest(ids) as i (id)
                    cross join lateral (
                        select
                        from pgq.message_3 as m
                        where m.partition_id = i.id
                        limit 1
                    ) as f
                )
            into is_there;
        end if;
    elsif _has_staged.segment <= 7 then
        if _has_staged.segment <= 5 then
            if _has_staged.segment <= 4 then
                select
                    exists (
                        select
                        from pgq.message_4 as m
                        where m.partition_id >= lowest
                            and m.partition_id < above
                    )
                    or exists (
                        select
                        from unnest(ids) as i (id)
                        cross join lateral (
                            select
                            from pgq.message_4 as m
                            where m.partition_id = i.id
                            limit 1
                        ) as f
                    )
                into is_there;
            else
                select
                    exists (
                        select
                        from pgq.message_5 as m
                        where m.partition_id >= lowest
                            and m.partition_id < above
                    )
                    or exists (
                        select
                        from unnest(ids) as i (id)
                        cross join lateral (
                            select
                            from pgq.message_5 as m
                            where m.partition_id = i.id
                            limit 1
                        ) as f
                    )
                into is_there;
            end if;
        else
            if _has_staged.segment <= 6 then
                select
                    exists (
                        select
                        from pgq.message_6 as m
                        where m.partition_id >= lowest
                            and m.partition_id < above
                    )
                    or exists (
                        select
                        from unnest(ids) as i (id)
                        cross join lateral (
                            select
                            from pgq.message_6 as m
                            where m.partition_id = i.id
                            limit 1
                        ) as f
                    )
                into is_there;
            else
                select
                    exists (
                        select
                        from pgq.message_7 as m
                        where m.partition_id >= lowest
                            and m.partition_id < above
                    )
                    or exists (
                        select
                        from unnest(ids) as i (id)
                        cross join lateral (
                            select
                            from pgq.message_7 as m
                            where m.partition_id = i.id
                            limit 1
                        ) as f
                    )
                into is_there;
            end if;
        end if;
    elsif _has_staged.segment <= 15 then
        if _has_staged.segment <= 11 then
            if _has_staged.segment <= 9 then
                if _has_staged.segment <= 8 then
                    select
                        exists (
                            select
                            from pgq.message_8 as m
                            where m.partition_id >= lowest
                                and m.partition_id < above
                        )
                        or exists (
                            select
                            from unnest(ids) as i (id)
                            cross join lateral (
                                select
                                from pgq.message_8 as m
                                where m.partition_id = i.id
                                limit 1
                            ) as f
                        )
                    into is_there;
                else
                    select
                        exists (
                            select
                            from pgq.message_9 as m
                            where m.partition_id >= lowest
                                and m.partition_id < above
                        )
                        or exists (
                            select
                            from unnest(ids) as i (id)
                            cross join lateral (
                                select
                                from pgq.message_9 as m
                                where m.partition_id = i.id
                                limit 1
                            ) as f
                        )
                    into is_there;
                end if;
            else
                if _has_staged.segment <= 10 then
                    select
                        exists (
                            select
                            from pgq.message_10 as m
                            where m.partition_id >= lowest
                                and m.partition_id < above
                        )
                        or exists (
                            select
                            from unnest(ids) as i (id)
                            cross join lateral (
                                select
                                from pgq.message_10 as m
                                where m.partition_id = i.id
                                limit 1
                            ) as f
                        )
                    into is_there;
                else
                    select
                        exists (
                            select
                            from pgq.message_11 as m
                            where m.partition_id >= lowest
                                and m.partition_id < above
                        )
                        or exists (
                            select
                            from unnest(ids) as i (id)
                            cross join lateral (
                                select
                                from pgq.message_11 as m
                                where m.partition_id = i.id
                                limit 1
                            ) as f
                        )
                    into is_there;
                end if;
            end if;
        else
            if _has_staged.segment <= 13 then
                if _has_staged.segment <= 12 then
                    select
                        exists (
                            select
                            from pgq.message_12 as m
                            where m.partition_id >= lowest
                                and m.partition_id < above
                        )
                        or exists (
                            select
                            from unnest(ids) as i (id)
                            cross join lateral (
                                select
                                from pgq.message_12 as m
                                where m.partition_id = i.id
                                limit 1
                            ) as f
                        )
                    into is_there;
                else
                    select
                        exists (
                            select
                            from pgq.message_13 as m
                            where m.partition_id >= lowest
                                and m.partition_id < above
                        )
                        or exists (
                            select
                            from unnest(ids) as i (id)
                            cross join lateral (
                                select
                                from pgq.message_13 as m
                                where m.partition_id = i.id
                                limit 1
                            ) as f
                        )
                    into is_there;
                end if;
            else
                if _has_staged.segment <= 14 then
                    select
                        exists (
                            select
                            from pgq.message_14 as m
                            where m.partition_id >= lowest
                                and m.partition_id < above
                        )
                        or exists (
                            select
                            from unnest(ids) as i (id)
                            cross join lateral (
                                select
                                from pgq.message_14 as m
                                where m.partition_id = i.id
                                limit 1
                            ) as f
                        )
                    into is_there;
                else
                    select
                        exists (
                            select
                            from pgq.message_15 as m
                            where m.partition_id >= lowest
                                and m.partition_id < above
                        )
                        or exists (
                            select
                            from unnest(ids) as i (id)
                            cross join lateral (
                                select
                                from pgq.message_15 as m
                                where m.partition_id = i.id
                                limit 1
                            ) as f
                        )
                    into is_there;
                end if;
            end if;
        end if;
    else
        execute format($leaf$
            select
                exists (
                    select
                    from pgq.message_%1$s as m
                    where m.partition_id >= $1
                        and m.partition_id < $2
                )
                or exists (
                    select
                    from unnest($3) as i (id)
                    cross join lateral (
                        select
                        from pgq.message_%1$s as m
                        where m.partition_id = i.id
                        limit 1
                    ) as f
                )
        $leaf$, _has_staged.segment)
        into is_there
        using lowest, above, ids;
    end if;

    return is_there;
end
$$;

revoke all on function pgq._has_staged from public;

comment on function pgq._has_staged(bigint, integer, pgq._staged_since) is
'Whether a segment has messages of a partition that were staged and committed, and have no offsets
yet.';

create function pgq._stage_batch(
    topic text,
    payloads jsonb[],
    keys text[],
    headers jsonb[],
    partition integer,
    bodies bytea[]
)
returns setof pgq.offset_range
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    size integer := coalesce(
        cardinality(_stage_batch.payloads), cardinality(_stage_batch.bodies)
    );
    -- The transaction id first, and the segments only then: see _close_segments.
    slot bigint := pg_current_xact_id()::text::bigint & 1099511627775;
    first_number bigint := nextval('pgq.staged_number') << 20;
    start_at integer := pgq._ring();
    looked boolean := false;
    target record;
    place record;
    fallback integer;
    homes integer[];
    ids bigint[];
    segments integer[];
    found_homes integer := 0;
    followed boolean;
    leaf integer;
    home_id bigint;
    stamp timestamptz := pgq._clock();
begin
    if size > 1048576 then
        raise exception 'argument "%" must have at most 1048576 elements for a deferred topic',
            case when _stage_batch.payloads is not null then 'payloads' else 'bodies' end
            using errcode = '22023';
    end if;

    select p.topic_id, p.partitions
    into target
    from pgq.partition as p
    where p.topic = _stage_batch.topic
        and p.partition = 0;

    if target.topic_id is null then
        perform pgq._fail_unknown_topic(_stage_batch.topic);
    end if;

    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        -- An old snapshot may show segments that are gone; then 40001. The locks are undone:
        -- nobody is to wait for those who stage messages.
        begin
            perform
            from pgq.partition as p
            where p.topic_id = target.topic_id
            order by p.partition
            for share;
            looked := true;
            raise exception 'these locks are not needed any more'
                using errcode = '55P03';
        exception
            when lock_not_available then
                if not looked then
                    raise;
                end if;
        end;
    end if;

    -- As in _publish_spread: those without a key go where one with a key goes, if there is any.
    fallback := coalesce(
        _stage_batch.partition,
        (
            select (hashtextextended(k.key, 0) % target.partitions + target.partitions)
                % target.partitions
            from unnest(_stage_batch.keys) as k (key)
            where k.key is not null
            limit 1
        ),
        (
            select p.partition
            from pgq.partition as p
            where p.topic_id = target.topic_id
                and p.ring <= start_at
            order by p.ring desc
            limit 1
        )
    );

    if _stage_batch.partition is not null or _stage_batch.keys is null then
        select (p.partition_id << 40) + slot, p.segment, p.followed
        into home_id, leaf, followed
        from pgq.partition as p
        where p.topic_id = target.topic_id
            and p.partition = fallback;

        if home_id is null then
            -- The topic was dropped meanwhile, and perhaps created again.
            perform pgq._fail_unknown_topic(_stage_batch.topic);
        end if;

        if leaf = 0 then
            insert into pgq.message_0 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                home_id,
                b.log_offset,
                stamp,
                0,
                b.key,
                b.header,
                b.payload,
                b.body
            from (
                select
                    generate_series(first_number, first_number + size - 1) as log_offset,
                    unnest(_stage_batch.keys) as key,
                    unnest(_stage_batch.headers) as header,
                    unnest(_stage_batch.payloads) as payload,
                    unnest(_stage_batch.bodies) as body
            ) as b;
        elsif leaf = 1 then
            insert into pgq.message_1 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                home_id,
                b.log_offset,
                stamp,
                1,
                b.key,
                b.header,
                b.payload,
                b.body
            from (
                select
                    generate_series(first_number, first_number + size - 1) as log_offset,
                    unnest(_stage_batch.keys) as key,
                    unnest(_stage_batch.headers) as header,
                    unnest(_stage_batch.payloads) as payload,
                    unnest(_stage_batch.bodies) as body
            ) as b;
        elsif leaf <= 3 then
            if leaf <= 2 then
                insert into pgq.message_2 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    home_id,
                    b.log_offset,
                    stamp,
                    2,
                    b.key,
                    b.header,
                    b.payload,
                    b.body
                from (
                    select
                        generate_series(first_number, first_number + size - 1) as log_offset,
                        unnest(_stage_batch.keys) as key,
                        unnest(_stage_batch.headers) as header,
                        unnest(_stage_batch.payloads) as payload,
                        unnest(_stage_batch.bodies) as body
                ) as b;
            else
                insert into pgq.message_3 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    home_id,
                    b.log_offset,
                    stamp,
                    3,
                    b.key,
                    b.header,
                    b.payload,
                    b.body
                from (
                    select
                        generate_series(first_number, first_number + size - 1) as log_offset,
                        unnest(_stage_batch.keys) as key,
                        unnest(_stage_batch.headers) as header,
                        unnest(_stage_batch.payloads) as payload,
                        unnest(_stage_batch.bodies) as body
                ) as b;
            end if;
        elsif leaf <= 7 then
            if leaf <= 5 then
                if leaf <= 4 then
                    insert into pgq.message_4 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        home_id,
                        b.log_offset,
                        stamp,
                        4,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(first_number, first_number + size - 1) as log_offset,
                            unnest(_stage_batch.keys) as key,
                            unnest(_stage_batch.headers) as header,
                            unnest(_stage_batch.payloads) as payload,
                            unnest(_stage_batch.bodies) as body
                    ) as b;
                else
                    insert into pgq.message_5 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        home_id,
                        b.log_offset,
                        stamp,
                        5,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(first_number, first_number + size - 1) as log_offset,
                            unnest(_stage_batch.keys) as key,
                            unnest(_stage_batch.headers) as header,
                            unnest(_stage_batch.payloads) as payload,
                            unnest(_stage_batch.bodies) as body
                    ) as b;
                end if;
            else
                if leaf <= 6 then
                    insert into pgq.message_6 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        home_id,
                        b.log_offset,
                        stamp,
                        6,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(first_number, first_number + size - 1) as log_offset,
                            unnest(_stage_batch.keys) as key,
                            unnest(_stage_batch.headers) as header,
                            unnest(_stage_batch.payloads) as payload,
                            unnest(_stage_batch.bodies) as body
                    ) as b;
                else
                    insert into pgq.message_7 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        home_id,
                        b.log_offset,
                        stamp,
                        7,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(first_number, first_number + size - 1) as log_offset,
                            unnest(_stage_batch.keys) as key,
                            unnest(_stage_batch.headers) as header,
                            unnest(_stage_batch.payloads) as payload,
                            unnest(_stage_batch.bodies) as body
                    ) as b;
                end if;
            end if;
        elsif leaf <= 15 then
            if leaf <= 11 then
                if leaf <= 9 then
                    if leaf <= 8 then
                        insert into pgq.message_8 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            home_id,
                            b.log_offset,
                            stamp,
                            8,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(first_number, first_number + size - 1) as log_offset,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b;
                    else
                        insert into pgq.message_9 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            home_id,
                            b.log_offset,
                            stamp,
                            9,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(first_number, first_number + size - 1) as log_offset,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b;
                    end if;
                else
                    if leaf <= 10 then
                        insert into pgq.message_10 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            home_id,
                            b.log_offset,
                            stamp,
                            10,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(first_number, first_number + size - 1) as log_offset,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b;
                    else
                        insert into pgq.message_11 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            home_id,
                            b.log_offset,
                            stamp,
                            11,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(first_number, first_number + size - 1) as log_offset,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b;
                    end if;
                end if;
            else
                if leaf <= 13 then
                    if leaf <= 12 then
                        insert into pgq.message_12 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            home_id,
                            b.log_offset,
                            stamp,
                            12,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(first_number, first_number + size - 1) as log_offset,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b;
                    else
                        insert into pgq.message_13 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            home_id,
                            b.log_offset,
                            stamp,
                            13,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(first_number, first_number + size - 1) as log_offset,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b;
                    end if;
                else
                    if leaf <= 14 then
                        insert into pgq.message_14 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            home_id,
                            b.log_offset,
                            stamp,
                            14,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(first_number, first_number + size - 1) as log_offset,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b;
                    else
                        insert into pgq.message_15 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            home_id,
                            b.log_offset,
                            stamp,
                            15,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(first_number, first_number + size - 1) as log_offset,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b;
                    end if;
                end if;
            end if;
        else
            execute format($leaf$
                insert into pgq.message_%1$s (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    $1,
                    b.log_offset,
                    $2,
                    %1$s,
                    b.key,
                    b.header,
                    b.payload,
                    b.body
                from (
                    select
                        generate_series($3, $3 + $4 - 1) as log_offset,
                        unnest($5) as key,
                        unnest($6) as header,
                        unnest($7) as payload,
                        unnest($8) as body
                ) as b
            $leaf$, leaf)
            using home_id, stamp, first_number, size, _stage_batch.keys, _stage_batch.headers, _stage_batch.payloads, _stage_batch.bodies;
        end if;

        if followed then
            perform pg_notify('pgq_topic', _stage_batch.topic);
        end if;
        return query
        select fallback, null::bigint, null::bigint;
        return;
    end if;

    select array_agg(
        case
            when k.key is null then fallback
            else (hashtextextended(k.key, 0) % target.partitions + target.partitions)
                % target.partitions
        end
        order by k.position
    )
    into homes
    from (
        select
            generate_series(1, size) as position,
            unnest(_stage_batch.keys) as key
    ) as k;

    for place in
        select p.partition, p.partition_id, p.segment, p.followed
        from pgq.partition as p
        where p.topic_id = target.topic_id
            and p.partition = any(homes)
    loop
        ids[place.partition] := (place.partition_id << 40) + slot;
        segments[place.partition] := place.segment;
        followed := place.followed;
        found_homes := found_homes + 1;
    end loop;

    if found_homes < (select count(distinct h) from unnest(homes) as h) then
        -- The topic was dropped meanwhile, and perhaps created again.
        perform pgq._fail_unknown_topic(_stage_batch.topic);
    end if;

    for leaf in
        select distinct g.segment
        from unnest(segments) as g (segment)
        where g.segment is not null
    loop
        if leaf = 0 then
            insert into pgq.message_0 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                (ids)[b.home],
                first_number + b.place,
                stamp,
                0,
                b.key,
                b.header,
                b.payload,
                b.body
            from (
                select
                    generate_series(0, size - 1) as place,
                    unnest(homes) as home,
                    unnest(_stage_batch.keys) as key,
                    unnest(_stage_batch.headers) as header,
                    unnest(_stage_batch.payloads) as payload,
                    unnest(_stage_batch.bodies) as body
            ) as b
            where (segments)[b.home] = 0;
        elsif leaf = 1 then
            insert into pgq.message_1 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                (ids)[b.home],
                first_number + b.place,
                stamp,
                1,
                b.key,
                b.header,
                b.payload,
                b.body
            from (
                select
                    generate_series(0, size - 1) as place,
                    unnest(homes) as home,
                    unnest(_stage_batch.keys) as key,
                    unnest(_stage_batch.headers) as header,
                    unnest(_stage_batch.payloads) as payload,
                    unnest(_stage_batch.bodies) as body
            ) as b
            where (segments)[b.home] = 1;
        elsif leaf <= 3 then
            if leaf <= 2 then
                insert into pgq.message_2 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    (ids)[b.home],
                    first_number + b.place,
                    stamp,
                    2,
                    b.key,
                    b.header,
                    b.payload,
                    b.body
                from (
                    select
                        generate_series(0, size - 1) as place,
                        unnest(homes) as home,
                        unnest(_stage_batch.keys) as key,
                        unnest(_stage_batch.headers) as header,
                        unnest(_stage_batch.payloads) as payload,
                        unnest(_stage_batch.bodies) as body
                ) as b
                where (segments)[b.home] = 2;
            else
                insert into pgq.message_3 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    (ids)[b.home],
                    first_number + b.place,
                    stamp,
                    3,
                    b.key,
                    b.header,
                    b.payload,
                    b.body
                from (
                    select
                        generate_series(0, size - 1) as place,
                        unnest(homes) as home,
                        unnest(_stage_batch.keys) as key,
                        unnest(_stage_batch.headers) as header,
                        unnest(_stage_batch.payloads) as payload,
                        unnest(_stage_batch.bodies) as body
                ) as b
                where (segments)[b.home] = 3;
            end if;
        elsif leaf <= 7 then
            if leaf <= 5 then
                if leaf <= 4 then
                    insert into pgq.message_4 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        (ids)[b.home],
                        first_number + b.place,
                        stamp,
                        4,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(0, size - 1) as place,
                            unnest(homes) as home,
                            unnest(_stage_batch.keys) as key,
                            unnest(_stage_batch.headers) as header,
                            unnest(_stage_batch.payloads) as payload,
                            unnest(_stage_batch.bodies) as body
                    ) as b
                    where (segments)[b.home] = 4;
                else
                    insert into pgq.message_5 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        (ids)[b.home],
                        first_number + b.place,
                        stamp,
                        5,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(0, size - 1) as place,
                            unnest(homes) as home,
                            unnest(_stage_batch.keys) as key,
                            unnest(_stage_batch.headers) as header,
                            unnest(_stage_batch.payloads) as payload,
                            unnest(_stage_batch.bodies) as body
                    ) as b
                    where (segments)[b.home] = 5;
                end if;
            else
                if leaf <= 6 then
                    insert into pgq.message_6 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        (ids)[b.home],
                        first_number + b.place,
                        stamp,
                        6,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(0, size - 1) as place,
                            unnest(homes) as home,
                            unnest(_stage_batch.keys) as key,
                            unnest(_stage_batch.headers) as header,
                            unnest(_stage_batch.payloads) as payload,
                            unnest(_stage_batch.bodies) as body
                    ) as b
                    where (segments)[b.home] = 6;
                else
                    insert into pgq.message_7 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        (ids)[b.home],
                        first_number + b.place,
                        stamp,
                        7,
                        b.key,
                        b.header,
                        b.payload,
                        b.body
                    from (
                        select
                            generate_series(0, size - 1) as place,
                            unnest(homes) as home,
                            unnest(_stage_batch.keys) as key,
                            unnest(_stage_batch.headers) as header,
                            unnest(_stage_batch.payloads) as payload,
                            unnest(_stage_batch.bodies) as body
                    ) as b
                    where (segments)[b.home] = 7;
                end if;
            end if;
        elsif leaf <= 15 then
            if leaf <= 11 then
                if leaf <= 9 then
                    if leaf <= 8 then
                        insert into pgq.message_8 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            first_number + b.place,
                            stamp,
                            8,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(0, size - 1) as place,
                                unnest(homes) as home,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b
                        where (segments)[b.home] = 8;
                    else
                        insert into pgq.message_9 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            first_number + b.place,
                            stamp,
                            9,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(0, size - 1) as place,
                                unnest(homes) as home,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b
                        where (segments)[b.home] = 9;
                    end if;
                else
                    if leaf <= 10 then
                        insert into pgq.message_10 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            first_number + b.place,
                            stamp,
                            10,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(0, size - 1) as place,
                                unnest(homes) as home,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b
                        where (segments)[b.home] = 10;
                    else
                        insert into pgq.message_11 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            first_number + b.place,
                            stamp,
                            11,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(0, size - 1) as place,
                                unnest(homes) as home,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b
                        where (segments)[b.home] = 11;
                    end if;
                end if;
            else
                if leaf <= 13 then
                    if leaf <= 12 then
                        insert into pgq.message_12 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            first_number + b.place,
                            stamp,
                            12,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(0, size - 1) as place,
                                unnest(homes) as home,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b
                        where (segments)[b.home] = 12;
                    else
                        insert into pgq.message_13 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            first_number + b.place,
                            stamp,
                            13,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(0, size - 1) as place,
                                unnest(homes) as home,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b
                        where (segments)[b.home] = 13;
                    end if;
                else
                    if leaf <= 14 then
                        insert into pgq.message_14 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            first_number + b.place,
                            stamp,
                            14,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(0, size - 1) as place,
                                unnest(homes) as home,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b
                        where (segments)[b.home] = 14;
                    else
                        insert into pgq.message_15 (
                            partition_id, log_offset, published_at, segment, key, headers, payload, body
                        )
                        select
                            (ids)[b.home],
                            first_number + b.place,
                            stamp,
                            15,
                            b.key,
                            b.header,
                            b.payload,
                            b.body
                        from (
                            select
                                generate_series(0, size - 1) as place,
                                unnest(homes) as home,
                                unnest(_stage_batch.keys) as key,
                                unnest(_stage_batch.headers) as header,
                                unnest(_stage_batch.payloads) as payload,
                                unnest(_stage_batch.bodies) as body
                        ) as b
                        where (segments)[b.home] = 15;
                    end if;
                end if;
            end if;
        else
            execute format($leaf$
                insert into pgq.message_%1$s (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    ($1)[b.home],
                    $2 + b.place,
                    $3,
                    %1$s,
                    b.key,
                    b.header,
                    b.payload,
                    b.body
                from (
                    select
                        generate_series(0, $4 - 1) as place,
                        unnest($5) as home,
                        unnest($6) as key,
                        unnest($7) as header,
                        unnest($8) as payload,
                        unnest($9) as body
                ) as b
                where ($10)[b.home] = %1$s
            $leaf$, leaf)
            using ids, first_number, stamp, size, homes, _stage_batch.keys, _stage_batch.headers, _stage_batch.payloads, _stage_batch.bodies, segments;
        end if;
    end loop;

    if followed then
        perform pg_notify('pgq_topic', _stage_batch.topic);
    end if;

    return query
    select g.partition, null::bigint, null::bigint
    from generate_subscripts(ids, 1) as g (partition)
    where ids[g.partition] is not null
    order by g.partition;
end
$$;

revoke all on function pgq._stage_batch from public;

comment on function pgq._stage_batch(text, jsonb[], text[], jsonb[], integer, bytea[]) is
'The part of publish_batch that knows deferred topics: stores messages that get their offsets later.
Each has the number of the call, times 2^20, plus its place in the batch: see _staged_since.';

create function pgq._move_staged(
    partition_id bigint,
    segment integer,
    places tid[],
    before_first bigint,
    stamp timestamptz
)
returns void
language plpgsql
volatile
parallel unsafe
set enable_indexscan = off
set enable_indexonlyscan = off
as $$
#variable_conflict use_column
begin
    -- An update, so that what is stored out of line stays where it is. Each row is found by its
    -- place: with no other way left, a plan made on an empty table cannot read all of them.
    if _move_staged.segment = 0 then
        update pgq.message_0 as m
        set
            partition_id = _move_staged.partition_id,
            log_offset = _move_staged.before_first + f.number,
            published_at = _move_staged.stamp
        from unnest(_move_staged.places) with ordinality as f (place, number)
        where m.ctid = f.place;
    elsif _move_staged.segment = 1 then
        update pgq.message_1 as m
        set
            partition_id = _move_staged.partition_id,
            log_offset = _move_staged.before_first + f.number,
            published_at = _move_staged.stamp
        from unnest(_move_staged.places) with ordinality as f (place, number)
        where m.ctid = f.place;
    elsif _move_staged.segment <= 3 then
        if _move_staged.segment <= 2 then
            update pgq.message_2 as m
            set
                partition_id = _move_staged.partition_id,
                log_offset = _move_staged.before_first + f.number,
                published_at = _move_staged.stamp
            from unnest(_move_staged.places) with ordinality as f (place, number)
            where m.ctid = f.place;
        else
            update pgq.message_3 as m
            set
                partition_id = _move_staged.partition_id,
                log_offset = _move_staged.before_first + f.number,
                published_at = _move_staged.stamp
            from unnest(_move_staged.places) with ordinality as f (place, number)
            where m.ctid = f.place;
        end if;
    elsif _move_staged.segment <= 7 then
        if _move_staged.segment <= 5 then
            if _move_staged.segment <= 4 then
                update pgq.message_4 as m
                set
                    partition_id = _move_staged.partition_id,
                    log_offset = _move_staged.before_first + f.number,
                    published_at = _move_staged.stamp
                from unnest(_move_staged.places) with ordinality as f (place, number)
                where m.ctid = f.place;
            else
                update pgq.message_5 as m
                set
                    partition_id = _move_staged.partition_id,
                    log_offset = _move_staged.before_first + f.number,
                    published_at = _move_staged.stamp
                from unnest(_move_staged.places) with ordinality as f (place, number)
                where m.ctid = f.place;
            end if;
        else
            if _move_staged.segment <= 6 then
                update pgq.message_6 as m
                set
                    partition_id = _move_staged.partition_id,
                    log_offset = _move_staged.before_first + f.number,
                    published_at = _move_staged.stamp
                from unnest(_move_staged.places) with ordinality as f (place, number)
                where m.ctid = f.place;
            else
                update pgq.message_7 as m
                set
                    partition_id = _move_staged.partition_id,
                    log_offset = _move_staged.before_first + f.number,
                    published_at = _move_staged.stamp
                from unnest(_move_staged.places) with ordinality as f (place, number)
                where m.ctid = f.place;
            end if;
        end if;
    elsif _move_staged.segment <= 15 then
        if _move_staged.segment <= 11 then
            if _move_staged.segment <= 9 then
                if _move_staged.segment <= 8 then
                    update pgq.message_8 as m
                    set
                        partition_id = _move_staged.partition_id,
                        log_offset = _move_staged.before_first + f.number,
                        published_at = _move_staged.stamp
                    from unnest(_move_staged.places) with ordinality as f (place, number)
                    where m.ctid = f.place;
                else
                    update pgq.message_9 as m
                    set
                        partition_id = _move_staged.partition_id,
                        log_offset = _move_staged.before_first + f.number,
                        published_at = _move_staged.stamp
                    from unnest(_move_staged.places) with ordinality as f (place, number)
                    where m.ctid = f.place;
                end if;
            else
                if _move_staged.segment <= 10 then
                    update pgq.message_10 as m
                    set
                        partition_id = _move_staged.partition_id,
                        log_offset = _move_staged.before_first + f.number,
                        published_at = _move_staged.stamp
                    from unnest(_move_staged.places) with ordinality as f (place, number)
                    where m.ctid = f.place;
                else
                    update pgq.message_11 as m
                    set
                        partition_id = _move_staged.partition_id,
                        log_offset = _move_staged.before_first + f.number,
                        published_at = _move_staged.stamp
                    from unnest(_move_staged.places) with ordinality as f (place, number)
                    where m.ctid = f.place;
                end if;
            end if;
        else
            if _move_staged.segment <= 13 then
                if _move_staged.segment <= 12 then
                    update pgq.message_12 as m
                    set
                        partition_id = _move_staged.partition_id,
                        log_offset = _move_staged.before_first + f.number,
                        published_at = _move_staged.stamp
                    from unnest(_move_staged.places) with ordinality as f (place, number)
                    where m.ctid = f.place;
                else
                    update pgq.message_13 as m
                    set
                        partition_id = _move_staged.partition_id,
                        log_offset = _move_staged.before_first + f.number,
                        published_at = _move_staged.stamp
                    from unnest(_move_staged.places) with ordinality as f (place, number)
                    where m.ctid = f.place;
                end if;
            else
                if _move_staged.segment <= 14 then
                    update pgq.message_14 as m
                    set
                        partition_id = _move_staged.partition_id,
                        log_offset = _move_staged.before_first + f.number,
                        published_at = _move_staged.stamp
                    from unnest(_move_staged.places) with ordinality as f (place, number)
                    where m.ctid = f.place;
                else
                    update pgq.message_15 as m
                    set
                        partition_id = _move_staged.partition_id,
                        log_offset = _move_staged.before_first + f.number,
                        published_at = _move_staged.stamp
                    from unnest(_move_staged.places) with ordinality as f (place, number)
                    where m.ctid = f.place;
                end if;
            end if;
        end if;
    else
        execute format($leaf$
            update pgq.message_%1$s as m
            set
                partition_id = $1,
                log_offset = $2 + f.number,
                published_at = $3
            from unnest($4) with ordinality as f (place, number)
            where m.ctid = f.place
        $leaf$, _move_staged.segment)
        using _move_staged.partition_id, _move_staged.before_first, _move_staged.stamp, _move_staged.places;
    end if;
end
$$;

revoke all on function pgq._move_staged from public;

comment on function pgq._move_staged(bigint, integer, tid[], bigint, timestamptz) is
'Gives the next offsets of a partition, whose row the caller has locked, to staged messages in the
segment that it writes to: to these rows, in this order.';

create function pgq._assign_across(
    state pgq._partition_state,
    left_segments integer[],
    since pgq._staged_since,
    before_first bigint,
    stamp timestamptz,
    max_messages bigint
)
returns bigint
language plpgsql
volatile
parallel unsafe
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    home integer := (_assign_across.state).segment;
    home_id bigint := (_assign_across.state).partition_id;
    leaves integer[] := array(
        select distinct s.segment
        from unnest(_assign_across.left_segments || home) as s (segment)
    );
    leaf integer;
    found_places tid[];
    found_numbers bigint[];
    -- What was found in all of them, and then the offset of each.
    places tid[] := '{}';
    numbers bigint[] := '{}';
    segments integer[] := '{}';
    offsets bigint[];
begin
    foreach leaf in array leaves loop
        execute format(
            'select array_agg(q.place), array_agg(q.number)
            from (
                select k.ctid as place, k.log_offset as number
                from pgq.message_%1$s as k
                where k.partition_id >= $1
                    and k.partition_id < $2
                union all
                select f.place, f.number
                from unnest($3) as i (id)
                cross join lateral (
                    select k.ctid as place, k.log_offset as number
                    from pgq.message_%1$s as k
                    where k.partition_id = i.id
                    offset 0
                ) as f
            ) as q',
            leaf
        )
        into found_places, found_numbers
        using
            (_assign_across.since).lowest,
            (home_id + 1) << 40,
            (_assign_across.since).ids;

        if found_places is not null then
            places := places || found_places;
            numbers := numbers || found_numbers;
            segments := segments || array_fill(leaf, array[cardinality(found_places)]);
        end if;
    end loop;

    -- In the order of their numbers across all of them.
    select array_agg(r.segment), array_agg(r.place), array_agg(r.log_offset)
    into segments, places, offsets
    from (
        select
            f.segment,
            f.place,
            _assign_across.before_first + row_number() over (order by f.number) as log_offset
        from unnest(segments, places, numbers) as f (segment, place, number)
        order by f.number
        limit _assign_across.max_messages
    ) as r;

    -- Nobody else moves them: the partition is locked. They go to where it writes to now.
    foreach leaf in array leaves loop
        if leaf = home then
            execute format(
                'update pgq.message_%s as m
                set partition_id = $1, log_offset = f.log_offset, published_at = $2
                from unnest($3, $4, $5) as f (segment, place, log_offset)
                where f.segment = $6
                    and m.ctid = f.place',
                home
            )
            using home_id, _assign_across.stamp, segments, places, offsets, home;
        else
            execute format(
                'with gone as (
                    delete from pgq.message_%s as m
                    using unnest($3, $4, $5) as f (segment, place, log_offset)
                    where f.segment = $6
                        and m.ctid = f.place
                    returning f.log_offset, m.key, m.headers, m.payload, m.body
                )

                insert into pgq.message_%s (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select $1, g.log_offset, $2, $7, g.key, g.headers, g.payload, g.body
                from gone as g',
                leaf,
                home
            )
            using home_id, _assign_across.stamp, segments, places, offsets, leaf, home;
        end if;
    end loop;

    return coalesce(cardinality(offsets), 0);
end
$$;

revoke all on function pgq._assign_across from public;

comment on function pgq._assign_across(
    pgq._partition_state, integer[], pgq._staged_since, bigint, timestamptz, bigint
) is
'What _assign does as long as staged messages may stand in segments that the partition has left;
returns how many got offsets.';

create function pgq._assign(
    topic text,
    state pgq._partition_state,
    max_messages bigint,
    watched boolean default false
)
returns pgq.offset_range
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    home_id bigint := (_assign.state).partition_id;
    since pgq._staged_since := pgq._staged_since(home_id);
    lowest bigint := since.lowest;
    above bigint := (home_id + 1) << 40;
    ids bigint[] := since.ids;
    most bigint := _assign.max_messages;
    left_segments integer[];
    newest pgq._newest_message;
    stamp timestamptz;
    before_first bigint;
    places tid[];
    moved bigint;
    server_started timestamptz := pg_postmaster_start_time();
    system_identifier bigint := since.system_identifier;
begin
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable')
        and not _assign.watched
    then
        -- The snapshot may be older than the newest message. The index then refuses the offset.
        begin
            return pgq._assign(_assign.topic, _assign.state, _assign.max_messages, true);
        exception
            when unique_violation then
                raise exception
                    'another transaction has given offsets in topic "%" since this one began',
                    _assign.topic
                    using errcode = '40001',
                        hint = 'Try the transaction again, or use READ COMMITTED.';
        end;
    end if;

    select p.left_segments
    into left_segments
    from pgq.partition as p
    where p.partition_id = home_id;

    -- The caller has locked the partition, so nobody else gives out offsets now.
    newest := pgq._newest(home_id, (_assign.state).segment, (_assign.state).segment_first_offset);
    before_first := coalesce(newest.log_offset, (_assign.state).segment_first_offset - 1);
    stamp := greatest(pgq._clock(), newest.published_at, (_assign.state).segment_entered_at);

    if left_segments = '{}' then
        if (_assign.state).segment = 0 then
            select array_agg(q.place)
            from (
                select s.place
                from (
                    select k.ctid as place, k.log_offset as number
                    from pgq.message_0 as k
                    where k.partition_id >= lowest
                        and k.partition_id < above
                    union all
                    select f.place, f.number
                    from unnest(ids) as i (id)
                    cross join lateral (
                        select k.ctid as place, k.log_offset as number
                        from pgq.message_0 as k
                        where k.partition_id = i.id
                        offset 0
                    ) as f
                ) as s
                order by s.number
                limit most
            ) as q
            into places;
        elsif (_assign.state).segment = 1 then
            select array_agg(q.place)
            from (
                select s.place
                from (
                    select k.ctid as place, k.log_offset as number
                    from pgq.message_1 as k
                    where k.partition_id >= lowest
                        and k.partition_id < above
                    union all
                    select f.place, f.number
                    from unnest(ids) as i (id)
                    cross join lateral (
                        select k.ctid as place, k.log_offset as number
                        from pgq.message_1 as k
                        where k.partition_id = i.id
                        offset 0
                    ) as f
                ) as s
                order by s.number
                limit most
            ) as q
            into places;
        elsif (_assign.state).segment <= 3 then
            if (_assign.state).segment <= 2 then
                select array_agg(q.place)
                from (
                    select s.place
                    from (
                        select k.ctid as place, k.log_offset as number
                        from pgq.message_2 as k
                        where k.partition_id >= lowest
                            and k.partition_id < above
                        union all
                        select f.place, f.number
                        from unnest(ids) as i (id)
                        cross join lateral (
                            select k.ctid as place, k.log_offset as number
                            from pgq.message_2 as k
                            where k.partition_id = i.id
                            offset 0
                        ) as f
                    ) as s
                    order by s.number
                    limit most
                ) as q
                into places;
            else
                select array_agg(q.place)
                from (
                    select s.place
                    from (
                        select k.ctid as place, k.log_offset as number
                        from pgq.message_3 as k
                        where k.partition_id >= lowest
                            and k.partition_id < above
                        union all
                        select f.place, f.number
                        from unnest(ids) as i (id)
                        cross join lateral (
                            select k.ctid as place, k.log_offset as number
                            from pgq.message_3 as k
                            where k.partition_id = i.id
                            offset 0
                        ) as f
                    ) as s
                    order by s.number
                    limit most
                ) as q
                into places;
            end if;
        elsif (_assign.state).segment <= 7 then
            if (_assign.state).segment <= 5 then
                if (_assign.state).segment <= 4 then
                    select array_agg(q.place)
                    from (
                        select s.place
                        from (
                            select k.ctid as place, k.log_offset as number
                            from pgq.message_4 as k
                            where k.partition_id >= lowest
                                and k.partition_id < above
                            union all
                            select f.place, f.number
                            from unnest(ids) as i (id)
                            cross join lateral (
                                select k.ctid as place, k.log_offset as number
                                from pgq.message_4 as k
                                where k.partition_id = i.id
                                offset 0
                            ) as f
                        ) as s
                        order by s.number
                        limit most
                    ) as q
                    into places;
                else
                    select array_agg(q.place)
                    from (
                        select s.place
                        from (
                            select k.ctid as place, k.log_offset as number
                            from pgq.message_5 as k
                            where k.partition_id >= lowest
                                and k.partition_id < above
                            union all
                            select f.place, f.number
                            from unnest(ids) as i (id)
                            cross join lateral (
                                select k.ctid as place, k.log_offset as number
                                from pgq.message_5 as k
                                where k.partition_id = i.id
                                offset 0
                            ) as f
                        ) as s
                        order by s.number
                        limit most
                    ) as q
                    into places;
                end if;
            else
                if (_assign.state).segment <= 6 then
                    select array_agg(q.place)
                    from (
                        select s.place
                        from (
                            select k.ctid as place, k.log_offset as number
                            from pgq.message_6 as k
                            where k.partition_id >= lowest
                                and k.partition_id < above
                            union all
                            select f.place, f.number
                            from unnest(ids) as i (id)
                            cross join lateral (
                                select k.ctid as place, k.log_offset as number
                                from pgq.message_6 as k
                                where k.partition_id = i.id
                                offset 0
                            ) as f
                        ) as s
                        order by s.number
                        limit most
                    ) as q
                    into places;
                else
                    select array_agg(q.place)
                    from (
                        select s.place
                        from (
                            select k.ctid as place, k.log_offset as number
                            from pgq.message_7 as k
                            where k.partition_id >= lowest
                                and k.partition_id < above
                            union all
                            select f.place, f.number
                            from unnest(ids) as i (id)
                            cross join lateral (
                                select k.ctid as place, k.log_offset as number
                                from pgq.message_7 as k
                                where k.partition_id = i.id
                                offset 0
                            ) as f
                        ) as s
                        order by s.number
                        limit most
                    ) as q
                    into places;
                end if;
            end if;
        elsif (_assign.state).segment <= 15 then
            if (_assign.state).segment <= 11 then
                if (_assign.state).segment <= 9 then
                    if (_assign.state).segment <= 8 then
                        select array_agg(q.place)
                        from (
                            select s.place
                            from (
                                select k.ctid as place, k.log_offset as number
                                from pgq.message_8 as k
                                where k.partition_id >= lowest
                                    and k.partition_id < above
                                union all
                                select f.place, f.number
                                from unnest(ids) as i (id)
                                cross join lateral (
                                    select k.ctid as place, k.log_offset as number
                                    from pgq.message_8 as k
                                    where k.partition_id = i.id
                                    offset 0
                                ) as f
                            ) as s
                            order by s.number
                            limit most
                        ) as q
                        into places;
                    else
                        select array_agg(q.place)
                        from (
                            select s.place
                            from (
                                select k.ctid as place, k.log_offset as number
                                from pgq.message_9 as k
                                where k.partition_id >= lowest
                                    and k.partition_id < above
                                union all
                                select f.place, f.number
                                from unnest(ids) as i (id)
                                cross join lateral (
                                    select k.ctid as place, k.log_offset as number
                                    from pgq.message_9 as k
                                    where k.partition_id = i.id
                                    offset 0
                                ) as f
                            ) as s
                            order by s.number
                            limit most
                        ) as q
                        into places;
                    end if;
                else
                    if (_assign.state).segment <= 10 then
                        select array_agg(q.place)
                        from (
                            select s.place
                            from (
                                select k.ctid as place, k.log_offset as number
                                from pgq.message_10 as k
                                where k.partition_id >= lowest
                                    and k.partition_id < above
                                union all
                                select f.place, f.number
                                from unnest(ids) as i (id)
                                cross join lateral (
                                    select k.ctid as place, k.log_offset as number
                                    from pgq.message_10 as k
                                    where k.partition_id = i.id
                                    offset 0
                                ) as f
                            ) as s
                            order by s.number
                            limit most
                        ) as q
                        into places;
                    else
                        select array_agg(q.place)
                        from (
                            select s.place
                            from (
                                select k.ctid as place, k.log_offset as number
                                from pgq.message_11 as k
                                where k.partition_id >= lowest
                                    and k.partition_id < above
                                union all
                                select f.place, f.number
                                from unnest(ids) as i (id)
                                cross join lateral (
                                    select k.ctid as place, k.log_offset as number
                                    from pgq.message_11 as k
                                    where k.partition_id = i.id
                                    offset 0
                                ) as f
                            ) as s
                            order by s.number
                            limit most
                        ) as q
                        into places;
                    end if;
                end if;
            else
                if (_assign.state).segment <= 13 then
                    if (_assign.state).segment <= 12 then
                        select array_agg(q.place)
                        from (
                            select s.place
                            from (
                                select k.ctid as place, k.log_offset as number
                                from pgq.message_12 as k
                                where k.partition_id >= lowest
                                    and k.partition_id < above
                                union all
                                select f.place, f.number
                                from unnest(ids) as i (id)
                                cross join lateral (
                                    select k.ctid as place, k.log_offset as number
                                    from pgq.message_12 as k
                                    where k.partition_id = i.id
                                    offset 0
                                ) as f
                            ) as s
                            order by s.number
                            limit most
                        ) as q
                        into places;
                    else
                        select array_agg(q.place)
                        from (
                            select s.place
                            from (
                                select k.ctid as place, k.log_offset as number
                                from pgq.message_13 as k
                                where k.partition_id >= lowest
                                    and k.partition_id < above
                                union all
                                select f.place, f.number
                                from unnest(ids) as i (id)
                                cross join lateral (
                                    select k.ctid as place, k.log_offset as number
                                    from pgq.message_13 as k
                                    where k.partition_id = i.id
                                    offset 0
                                ) as f
                            ) as s
                            order by s.number
                            limit most
                        ) as q
                        into places;
                    end if;
                else
                    if (_assign.state).segment <= 14 then
                        select array_agg(q.place)
                        from (
                            select s.place
                            from (
                                select k.ctid as place, k.log_offset as number
                                from pgq.message_14 as k
                                where k.partition_id >= lowest
                                    and k.partition_id < above
                                union all
                                select f.place, f.number
                                from unnest(ids) as i (id)
                                cross join lateral (
                                    select k.ctid as place, k.log_offset as number
                                    from pgq.message_14 as k
                                    where k.partition_id = i.id
                                    offset 0
                                ) as f
                            ) as s
                            order by s.number
                            limit most
                        ) as q
                        into places;
                    else
                        select array_agg(q.place)
                        from (
                            select s.place
                            from (
                                select k.ctid as place, k.log_offset as number
                                from pgq.message_15 as k
                                where k.partition_id >= lowest
                                    and k.partition_id < above
                                union all
                                select f.place, f.number
                                from unnest(ids) as i (id)
                                cross join lateral (
                                    select k.ctid as place, k.log_offset as number
                                    from pgq.message_15 as k
                                    where k.partition_id = i.id
                                    offset 0
                                ) as f
                            ) as s
                            order by s.number
                            limit most
                        ) as q
                        into places;
                    end if;
                end if;
            end if;
        else
            execute format($leaf$
                select array_agg(q.place)
                from (
                    select s.place
                    from (
                        select k.ctid as place, k.log_offset as number
                        from pgq.message_%1$s as k
                        where k.partition_id >= $1
                            and k.partition_id < $2
                        union all
                        select f.place, f.number
                        from unnest($3) as i (id)
                        cross join lateral (
                            select k.ctid as place, k.log_offset as number
                            from pgq.message_%1$s as k
                            where k.partition_id = i.id
                            offset 0
                        ) as f
                    ) as s
                    order by s.number
                    limit $4
                ) as q
            $leaf$, (_assign.state).segment)
            into places
            using lowest, above, ids, most;
        end if;
        moved := coalesce(cardinality(places), 0);
        if moved > 0 then
            perform pgq._move_staged(
                home_id, (_assign.state).segment, places, before_first, stamp
            );
        end if;
    else
        moved := pgq._assign_across(
            _assign.state, left_segments, since, before_first, stamp, most
        );
    end if;

    -- What found nothing is not noted, unless it had to look for many.
    if moved > 0 or cardinality(ids) > 100 then
        if moved = most then
            -- There may be more: the next one begins where this one began.
            select a.next_xid, a.open_xids, a.server_started, a.system_identifier
            into since.next_xid, since.open_xids, server_started, system_identifier
            from pgq.assignment as a
            where a.partition_id = home_id
                and a.seq = since.seq;
        end if;

        insert into pgq.assignment (
            partition_id, seq, next_xid, open_xids, server_started, system_identifier
        )
        values (
            home_id,
            since.seq + 1,
            coalesce(since.next_xid, '0'),
            coalesce(since.open_xids, '{}'),
            coalesce(server_started, '-infinity'),
            coalesce(system_identifier, 0)
        )
        on conflict do nothing;

        -- One row goes for each that comes, found by its number, so no dead rows are walked.
        delete from pgq.assignment as a
        where a.partition_id = home_id
            and a.seq = since.seq - 63;
    end if;

    if moved = 0 then
        return null;
    end if;
    if (_assign.state).followed then
        perform pg_notify('pgq_topic', _assign.topic);
    end if;
    return row((_assign.state).partition, before_first + 1, before_first + moved)
        ::pgq.offset_range;
end
$$;

revoke all on function pgq._assign from public;

comment on function pgq._assign(text, pgq._partition_state, bigint, boolean) is
'Gives offsets to what was staged for a partition, whose row the caller has locked, and committed;
to the first max_messages of it, or to all when that is null. Null: there was nothing.
Of what is seen at once, the message that was published first comes first. So transactions with one
key keep their order, unless they ran side by side. Above READ COMMITTED another one''s work makes
it raise 40001. watched: somebody has seen to that.';

create function pgq._assign_all(topic text, partition integer, max_messages bigint)
returns setof pgq.offset_range
language plpgsql
volatile
parallel unsafe
set plan_cache_mode = force_generic_plan
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    target record;
    state pgq._partition_state;
    assigned pgq.offset_range;
begin
    -- Only a partition that has something is locked; one that somebody else has is left to him.
    for target in
        select p.partition_id
        from pgq.partition as p
        cross join lateral pgq._staged_since(p.partition_id) as s
        where p.topic = _assign_all.topic
            and p.deferred
            and p.partition = coalesce(_assign_all.partition, p.partition)
            and exists (
                select
                from unnest(p.left_segments || p.segment) as l (segment)
                where pgq._has_staged(p.partition_id, l.segment, s)
            )
        order by p.partition
    loop
        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            p.segment_until,
            p.followed,
            p.deferred
        into state
        from pgq.partition as p
        where p.partition_id = target.partition_id
        for no key update skip locked;
        continue when not found;

        if state.segment_until <= pgq._clock() then
            state := pgq._enter_segment(_assign_all.topic, state);
        end if;

        assigned := pgq._assign(_assign_all.topic, state, _assign_all.max_messages);
        if assigned.partition is not null then
            return next assigned;
        end if;
    end loop;
end
$$;

revoke all on function pgq._assign_all from public;

comment on function pgq._assign_all(text, integer, bigint) is
'Gives offsets to what is staged for the partitions of a deferred topic and committed, to
max_messages of each at most, and returns the offsets; leaves out a partition where another
transaction is at it.';

create function pgq._assign_waiting(topic text, partition integer)
returns bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    total bigint;
begin
    select sum(r.last_offset - r.first_offset + 1)
    into total
    from pgq._assign_all(_assign_waiting.topic, _assign_waiting.partition, 100000) as r;

    return coalesce(total, 0);
end
$$;

revoke all on function pgq._assign_waiting from public;

comment on function pgq._assign_waiting(text, integer) is
'Gives offsets to what is staged for a partition of a deferred topic, or for all, and committed, for
a consumer that has nothing to read; returns how many got theirs.';

create function pgq.assign_offsets(topic text, partition integer default null)
returns setof pgq.offset_range
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    partition_count integer;
begin
    select t.partitions
    into partition_count
    from pgq.topic as t
    where t.topic = assign_offsets.topic collate "C";

    if partition_count is null then
        perform pgq._fail_unknown_topic(assign_offsets.topic collate "C");
    end if;
    if assign_offsets.partition not between 0 and partition_count - 1 then
        perform pgq._fail_unknown_partition(
            assign_offsets.topic collate "C", assign_offsets.partition, partition_count
        );
    end if;

    return query
    select r.*
    from pgq._assign_all(assign_offsets.topic collate "C", assign_offsets.partition, 1000000) as r;
end
$$;

revoke all on function pgq.assign_offsets from public;

comment on function pgq.assign_offsets(text, integer) is
'Gives offsets to the messages of a deferred topic that were committed and have none yet.
Consumers do that themselves, in their own transaction, when there is nothing else to read, and
others get these messages only when it commits: whoever works in the transaction of consume for
long calls this before, in a transaction of its own. So does who only reads: fetch, fetch_range,
list_offsets. Returns the offsets that were given, a row per partition, 1000000 in each at most; no
row when there was nothing, or another transaction is at it. The topics that are not deferred never
have anything.
Errors: MQ001 unknown topic, MQ007 unknown partition, 22004 a required argument is null, 40001 above
READ COMMITTED when another transaction was first (try again).';

create or replace function pgq._lock_group(
    topic text,
    consumer_group text,
    partition integer,
    available_only boolean
)
returns pgq._group_state
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    state pgq._group_state;
    is_deferred boolean;
    assigned boolean := false;
begin
    loop
        if _lock_group.partition is not null then
            select l.group_id, l.partition, l.partition_id, l.out_of_range, l.max_attempts
            into
                state.group_id,
                state.partition,
                state.partition_id,
                state.out_of_range,
                state.max_attempts
            from pgq.group_partition as l
            where l.topic = _lock_group.topic
                and l.consumer_group = _lock_group.consumer_group
                and l.partition = _lock_group.partition
            for no key update;
        else
            -- Of the partitions that have something to read and that no member holds, the one that
            -- was read longest ago.
            select l.group_id, l.partition, l.partition_id, l.out_of_range, l.max_attempts
            into
                state.group_id,
                state.partition,
                state.partition_id,
                state.out_of_range,
                state.max_attempts
            from pgq.group_partition as l
            inner join pgq.partition as p on p.partition_id = l.partition_id
            cross join lateral (
                select j.next_offset, j.recorded_at, j.leased_until
                from pgq.group_position as j
                where j.group_id = l.group_id
                    and j.partition = l.partition
                order by j.seq desc
                limit 1
            ) as q
            where l.topic = _lock_group.topic
                and l.consumer_group = _lock_group.consumer_group
                and (q.leased_until is null or q.leased_until <= pgq._clock())
                and (
                    q.next_offset < p.segment_first_offset
                    or (pgq._newest(p.partition_id, p.segment, q.next_offset)).log_offset
                    is not null
                )
            -- A time ahead of the clock, which was set back, counts as none.
            order by nullif(q.recorded_at, greatest(q.recorded_at, pgq._clock())) nulls first
            limit 1
            for no key update of l skip locked;
        end if;

        if state.group_id is null then
            is_deferred := pgq._check_group(
                _lock_group.topic, _lock_group.consumer_group, _lock_group.partition
            );
            -- The named partition exists: it was dropped and created again while this call waited.
            continue when _lock_group.partition is not null;

            -- Once: another group, or a lease, may be what keeps this one from reading.
            if is_deferred and not assigned then
                assigned := pgq._assign_waiting(_lock_group.topic, null) > 0;
                continue when assigned;
            end if;

            -- To an old snapshot, a segment that was emptied looks as if nothing were to be read.
            if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
                perform pgq._last_offset(p.partition_id, p.segment, p.segment_first_offset)
                from pgq.group_partition as l
                inner join pgq.partition as p on p.partition_id = l.partition_id
                where l.topic = _lock_group.topic
                    and l.consumer_group = _lock_group.consumer_group;
            end if;
            return null;
        end if;

        -- A new statement: its snapshot is younger than the lock.
        select
            p.segment,
            p.segment_first_offset,
            p.deferred,
            pgq._last_offset(p.partition_id, p.segment, p.segment_first_offset),
            j.seq,
            j.next_offset,
            j.leased_until,
            j.lease_token,
            j.lease_last_offset,
            j.attempt,
            j.last_error,
            j.tried_offset,
            j.single_offset
        into
            state.segment,
            state.segment_first_offset,
            is_deferred,
            state.last_offset,
            state.seq,
            state.next_offset,
            state.leased_until,
            state.lease_token,
            state.lease_last_offset,
            state.attempt,
            state.last_error,
            state.tried_offset,
            state.single_offset
        from pgq.partition as p
        cross join lateral (
            select k.*
            from pgq.group_position as k
            where k.group_id = state.group_id
                and k.partition = state.partition
            order by k.seq desc
            limit 1
        ) as j
        where p.partition_id = state.partition_id;

        if not _lock_group.available_only
            or (state.last_offset >= state.next_offset
                and (state.leased_until is null or state.leased_until <= pgq._clock()))
        then
            return state;
        end if;

        if is_deferred and _lock_group.partition is not null and not assigned
            and state.last_offset < state.next_offset
        then
            assigned := pgq._assign_waiting(_lock_group.topic, _lock_group.partition) > 0;
            continue when assigned;
        end if;

        -- Nothing to read here. When any partition will do, another member was faster: look again.
        if _lock_group.partition is not null then
            return null;
        end if;
    end loop;
end
$$;

comment on function pgq._lock_group(text, text, integer, boolean) is
'Locks the position of a group in the named partition, or in one that has messages for it, and says
where it stands; with available_only it returns null when there is nothing to read, or another
member holds it. In a deferred topic, messages get their offsets when there is nothing to read.
Raises MQ001, MQ003, MQ007.';

create or replace function pgq._append_position(
    state pgq._group_state,
    next_offset bigint,
    leased_until timestamptz,
    lease_token uuid
)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    insert into pgq.group_position (
        group_id,
        partition,
        seq,
        first_offset,
        next_offset,
        recorded_at,
        leased_until,
        lease_token,
        lease_last_offset,
        attempt,
        last_error,
        tried_offset,
        single_offset
    )
    values (
        (_append_position.state).group_id,
        (_append_position.state).partition,
        (_append_position.state).seq + 1,
        (_append_position.state).next_offset,
        _append_position.next_offset,
        pgq._clock(),
        _append_position.leased_until,
        _append_position.lease_token,
        case
            when _append_position.lease_token is not null
                then (_append_position.state).lease_last_offset
        end,
        -- Attempts are those at one position: whoever moves it on and keeps the lease is at the
        -- first one there.
        case
            when (_append_position.state).max_attempts is null then null
            when _append_position.next_offset = (_append_position.state).next_offset
                then (_append_position.state).attempt
            when _append_position.lease_token is not null then 1
        end,
        case
            when (_append_position.state).max_attempts is not null
                and _append_position.next_offset = (_append_position.state).next_offset
                then (_append_position.state).last_error
        end,
        case
            when (_append_position.state).max_attempts is not null
                then (_append_position.state).tried_offset
        end,
        case
            when (_append_position.state).max_attempts is not null
                then (_append_position.state).single_offset
        end
    )
    on conflict do nothing;

    return found;
end
$$;

create function pgq._give_up(
    topic text,
    consumer_group text,
    state pgq._group_state,
    held_until timestamptz
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    current pgq._group_state := _give_up.state;
    poison pgq.message_record;
    dead_letter_topic text;
begin
    -- Which one of several it is, nobody knows yet.
    if current.tried_offset > current.next_offset
        and (current.single_offset >= current.next_offset) is not true
    then
        current.attempt := 0;
        current.single_offset := current.tried_offset;
        perform pgq._append_position(current, current.next_offset, _give_up.held_until, null);
        return;
    end if;

    select m.*
    into poison
    from pgq._messages_across(
        current.partition_id, current.partition, current.next_offset, current.next_offset
    ) as m;
    if poison.log_offset is null then
        perform pgq._fail_truncated(_give_up.topic);
    end if;

    select t.topic
    into dead_letter_topic
    from pgq.consumer_group as g
    inner join pgq.topic as t on t.topic_id = g.dead_letter_topic_id
    where g.group_id = current.group_id;

    -- The one that moves the position is the one that publishes.
    if pgq._append_position(current, current.next_offset + 1, null, null) then
        perform
        from pgq.publish(
            topic => dead_letter_topic,
            payload => poison.payload,
            key => poison.key,
            headers => coalesce(poison.headers, '{}') || jsonb_build_object(
                'pgq_topic', _give_up.topic,
                'pgq_partition', poison.partition,
                'pgq_offset', poison.log_offset,
                'pgq_group', _give_up.consumer_group,
                'pgq_attempts', current.attempt,
                'pgq_error', current.last_error,
                'pgq_published_at', poison.published_at
            ),
            body => poison.body
        );
    end if;
end
$$;

revoke all on function pgq._give_up from public;

comment on function pgq._give_up(text, text, pgq._group_state, timestamptz) is
'What becomes of messages that had all their attempts, in a partition whose row the caller has
locked. Of several, each is given out alone from now on, and nobody gets them until held_until; a
single one is published to the dead-letter topic of the group, which goes on behind it.';

create or replace function pgq._claim_any(
    topic text,
    consumer_group text,
    max_messages integer,
    partition integer,
    lease interval
)
returns pgq._claim_state
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    ran_out constant text := 'the lease of the last attempt ran out';
    wanted integer := coalesce(_claim_any.max_messages, 100);
    state pgq._group_state;
    claimed pgq._claim_state;
    first_available bigint;
begin
    perform pgq._check_count('max_messages', wanted, 1, 1000000);

    loop
        state := pgq._lock_group(
            _claim_any.topic, _claim_any.consumer_group, _claim_any.partition, true
        );
        if state.group_id is null then
            return null;
        end if;

        claimed.first_offset := state.next_offset;
        claimed.segment := state.segment;
        if state.next_offset < state.segment_first_offset then
            claimed.segment := null;
            first_available := pgq._first_available(state.partition_id);
            if state.next_offset < first_available then
                if state.out_of_range = 'error' then
                    perform pgq._fail_out_of_range(
                        _claim_any.topic,
                        state.partition,
                        state.next_offset,
                        first_available,
                        state.last_offset,
                        true
                    );
                end if;
                claimed.first_offset := first_available;
                if first_available > state.last_offset then
                    -- Retention has left nothing here. Note that, or this partition would look
                    -- like the one to read for ever.
                    perform pgq._append_position(state, first_available, null, null);
                    continue;
                end if;
            end if;
        end if;

        if state.max_attempts is not null and claimed.first_offset = state.next_offset then
            -- The member before is lost, or it would have said how it failed.
            if state.lease_token is not null
                and right(state.last_error, length(ran_out)) is distinct from ran_out
            then
                state.last_error := concat_ws(E'\n', state.last_error, ran_out);
            end if;
            if state.attempt >= state.max_attempts then
                perform pgq._give_up(_claim_any.topic, _claim_any.consumer_group, state, null);
                continue;
            end if;
            if _claim_any.lease is not null then
                state.attempt := coalesce(state.attempt, 0) + 1;
            end if;
        end if;

        claimed.partition := state.partition;
        claimed.partition_id := state.partition_id;
        claimed.last_offset := case
            when state.max_attempts is not null and claimed.first_offset <= state.single_offset
                then claimed.first_offset
            else least(state.last_offset, claimed.first_offset + wanted - 1)
        end;
        if _claim_any.lease is not null then
            claimed.lease_token := gen_random_uuid();
            claimed.leased_until := pgq._clock() + _claim_any.lease;
            state.lease_last_offset := claimed.last_offset;
            state.tried_offset := greatest(state.tried_offset, claimed.last_offset);
        end if;

        if pgq._append_position(
            state,
            case
                when _claim_any.lease is null then claimed.last_offset + 1
                else claimed.first_offset
            end,
            claimed.leased_until,
            claimed.lease_token
        ) then
            return claimed;
        end if;
    end loop;
end
$$;

comment on function pgq._claim_any(text, text, integer, integer, interval) is
'What _claim does when it has to look further: at other partitions, at older segments, at the
partition that was named, or at the attempts that there were.';

create or replace function pgq._claim(
    topic text,
    consumer_group text,
    max_messages integer,
    partition integer,
    lease interval
)
returns pgq._claim_state
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    place integer;
    target_id bigint;
    number integer;
    home_id bigint;
    leaf integer;
    entered_offset bigint;
    current_seq bigint;
    position bigint;
    ready boolean;
    last_message pgq.message_record;
    keep interval := _claim.lease;
    token uuid;
    taken_to bigint;
    claimed pgq._claim_state;
begin
    if keep is not null then
        token := gen_random_uuid();
    end if;

    -- The usual case: where this member looks first, the next messages stand in the segment that is
    -- written to now, and no attempts are counted. _claim_any knows the others. A few plain statements take less time than one that
    -- joins.
    if _claim.partition is null then
        place := pgq._ring();

        select p.partition, p.partition_id, p.segment, p.segment_first_offset
        into number, home_id, leaf, entered_offset
        from pgq.partition as p
        where p.topic = _claim.topic collate "C"
            and p.ring <= place
        order by p.ring desc
        limit 1;

        -- By the id: there may be another topic of that name by now.
        select g.group_id
        into target_id
        from pgq.group_partition as g
        where g.partition_id = home_id
            and g.consumer_group = _claim.consumer_group collate "C"
            and g.max_attempts is null;

        select
            j.seq,
            j.next_offset,
            j.next_offset >= entered_offset
            and (j.leased_until > pgq._clock()) is not true
            and (_claim.max_messages > 1000000) is not true
        into current_seq, position, ready
        from pgq.group_position as j
        where j.group_id = target_id
            and j.partition = number
        order by j.seq desc
        limit 1;

        if ready then
            -- Offsets have no gaps, so the last one tells how many there are. Usually this is the only
            -- message, so it is read as a whole.
            if leaf = 0 then
                select
                    number,
                    m.log_offset,
                    m.published_at,
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_0 as m
                where m.partition_id = home_id
                    and m.log_offset >= position
                    and m.log_offset < position + coalesce(_claim.max_messages, 100)
                order by m.log_offset desc
                limit 1
                into last_message;
            elsif leaf = 1 then
                select
                    number,
                    m.log_offset,
                    m.published_at,
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_1 as m
                where m.partition_id = home_id
                    and m.log_offset >= position
                    and m.log_offset < position + coalesce(_claim.max_messages, 100)
                order by m.log_offset desc
                limit 1
                into last_message;
            elsif leaf <= 3 then
                if leaf <= 2 then
                    select
                        number,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_2 as m
                    where m.partition_id = home_id
                        and m.log_offset >= position
                        and m.log_offset < position + coalesce(_claim.max_messages, 100)
                    order by m.log_offset desc
                    limit 1
                    into last_message;
                else
                    select
                        number,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_3 as m
                    where m.partition_id = home_id
                        and m.log_offset >= position
                        and m.log_offset < position + coalesce(_claim.max_messages, 100)
                    order by m.log_offset desc
                    limit 1
                    into last_message;
                end if;
            elsif leaf <= 7 then
                if leaf <= 5 then
                    if leaf <= 4 then
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_4 as m
                        where m.partition_id = home_id
                            and m.log_offset >= position
                            and m.log_offset < position + coalesce(_claim.max_messages, 100)
                        order by m.log_offset desc
                        limit 1
                        into last_message;
                    else
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_5 as m
                        where m.partition_id = home_id
                            and m.log_offset >= position
                            and m.log_offset < position + coalesce(_claim.max_messages, 100)
                        order by m.log_offset desc
                        limit 1
                        into last_message;
                    end if;
                else
                    if leaf <= 6 then
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_6 as m
                        where m.partition_id = home_id
                            and m.log_offset >= position
                            and m.log_offset < position + coalesce(_claim.max_messages, 100)
                        order by m.log_offset desc
                        limit 1
                        into last_message;
                    else
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_7 as m
                        where m.partition_id = home_id
                            and m.log_offset >= position
                            and m.log_offset < position + coalesce(_claim.max_messages, 100)
                        order by m.log_offset desc
                        limit 1
                        into last_message;
                    end if;
                end if;
            elsif leaf <= 15 then
                if leaf <= 11 then
                    if leaf <= 9 then
                        if leaf <= 8 then
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_8 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(_claim.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        else
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_9 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(_claim.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        end if;
                    else
                        if leaf <= 10 then
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_10 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(_claim.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        else
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_11 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(_claim.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        end if;
                    end if;
                else
                    if leaf <= 13 then
                        if leaf <= 12 then
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_12 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(_claim.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        else
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_13 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(_claim.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        end if;
                    else
                        if leaf <= 14 then
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_14 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(_claim.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        else
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_15 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(_claim.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        end if;
                    end if;
                end if;
            else
                execute format($leaf$
                    select
                        $1,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_%1$s as m
                    where m.partition_id = $2
                        and m.log_offset >= $3
                        and m.log_offset < $3 + coalesce($4, 100)
                    order by m.log_offset desc
                    limit 1
                $leaf$, leaf)
                into last_message
                using number, home_id, position, _claim.max_messages;
            end if;

            -- Only a partition that has something to read is locked.
            if last_message.log_offset is not null then
                perform
                from pgq.group_partition as l
                where l.group_id = target_id
                    and l.partition = number
                    and l.trimmed_seq <= current_seq
                for no key update skip locked;

                -- Where another member was faster, its row of the journal has this number, or the
                -- journal was trimmed above it.
                if found then
                    insert into pgq.group_position (
                        group_id,
                        partition,
                        seq,
                        first_offset,
                        next_offset,
                        recorded_at,
                        leased_until,
                        lease_token,
                        lease_last_offset
                    )
                    values (
                        target_id,
                        number,
                        current_seq + 1,
                        position,
                        case when token is null then last_message.log_offset + 1 else position end,
                        pgq._clock(),
                        pgq._clock() + keep,
                        token,
                        case when token is not null then last_message.log_offset end
                    )
                    on conflict do nothing
                    returning greatest(next_offset - 1, lease_last_offset)
                    into taken_to;
                end if;
            end if;
        end if;
    end if;

    if taken_to is not null then
        claimed.partition := number;
        claimed.partition_id := home_id;
        claimed.first_offset := position;
        claimed.last_offset := taken_to;
        claimed.segment := leaf;
        claimed.lease_token := token;
        if token is not null then
            select j.leased_until
            into claimed.leased_until
            from pgq.group_position as j
            where j.group_id = target_id
                and j.partition = number
                and j.seq = current_seq + 1;
        end if;
        return claimed;
    end if;

    return pgq._claim_any(
        _claim.topic,
        _claim.consumer_group,
        _claim.max_messages,
        _claim.partition,
        _claim.lease
    );
end
$$;

create or replace function pgq.consume(
    topic text,
    consumer_group text,
    max_messages integer default 100,
    partition integer default null
)
returns setof pgq.message_record
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    place integer;
    target_id bigint;
    number integer;
    home_id bigint;
    leaf integer;
    entered_offset bigint;
    current_seq bigint;
    position bigint;
    ready boolean;
    last_message pgq.message_record;
    keep interval;
    token uuid;
    taken_to bigint;
    claimed pgq._claim_state;
    read_rows bigint;
begin
    -- The usual case: where this member looks first, the next messages stand in the segment that is
    -- written to now, and no attempts are counted. _claim_any knows the others. A few plain statements take less time than one that
    -- joins.
    if consume.partition is null then
        place := pgq._ring();

        select p.partition, p.partition_id, p.segment, p.segment_first_offset
        into number, home_id, leaf, entered_offset
        from pgq.partition as p
        where p.topic = consume.topic collate "C"
            and p.ring <= place
        order by p.ring desc
        limit 1;

        -- By the id: there may be another topic of that name by now.
        select g.group_id
        into target_id
        from pgq.group_partition as g
        where g.partition_id = home_id
            and g.consumer_group = consume.consumer_group collate "C"
            and g.max_attempts is null;

        select
            j.seq,
            j.next_offset,
            j.next_offset >= entered_offset
            and (j.leased_until > pgq._clock()) is not true
            and (consume.max_messages > 1000000) is not true
        into current_seq, position, ready
        from pgq.group_position as j
        where j.group_id = target_id
            and j.partition = number
        order by j.seq desc
        limit 1;

        if ready then
            -- Offsets have no gaps, so the last one tells how many there are. Usually this is the only
            -- message, so it is read as a whole.
            if leaf = 0 then
                select
                    number,
                    m.log_offset,
                    m.published_at,
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_0 as m
                where m.partition_id = home_id
                    and m.log_offset >= position
                    and m.log_offset < position + coalesce(consume.max_messages, 100)
                order by m.log_offset desc
                limit 1
                into last_message;
            elsif leaf = 1 then
                select
                    number,
                    m.log_offset,
                    m.published_at,
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_1 as m
                where m.partition_id = home_id
                    and m.log_offset >= position
                    and m.log_offset < position + coalesce(consume.max_messages, 100)
                order by m.log_offset desc
                limit 1
                into last_message;
            elsif leaf <= 3 then
                if leaf <= 2 then
                    select
                        number,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_2 as m
                    where m.partition_id = home_id
                        and m.log_offset >= position
                        and m.log_offset < position + coalesce(consume.max_messages, 100)
                    order by m.log_offset desc
                    limit 1
                    into last_message;
                else
                    select
                        number,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_3 as m
                    where m.partition_id = home_id
                        and m.log_offset >= position
                        and m.log_offset < position + coalesce(consume.max_messages, 100)
                    order by m.log_offset desc
                    limit 1
                    into last_message;
                end if;
            elsif leaf <= 7 then
                if leaf <= 5 then
                    if leaf <= 4 then
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_4 as m
                        where m.partition_id = home_id
                            and m.log_offset >= position
                            and m.log_offset < position + coalesce(consume.max_messages, 100)
                        order by m.log_offset desc
                        limit 1
                        into last_message;
                    else
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_5 as m
                        where m.partition_id = home_id
                            and m.log_offset >= position
                            and m.log_offset < position + coalesce(consume.max_messages, 100)
                        order by m.log_offset desc
                        limit 1
                        into last_message;
                    end if;
                else
                    if leaf <= 6 then
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_6 as m
                        where m.partition_id = home_id
                            and m.log_offset >= position
                            and m.log_offset < position + coalesce(consume.max_messages, 100)
                        order by m.log_offset desc
                        limit 1
                        into last_message;
                    else
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_7 as m
                        where m.partition_id = home_id
                            and m.log_offset >= position
                            and m.log_offset < position + coalesce(consume.max_messages, 100)
                        order by m.log_offset desc
                        limit 1
                        into last_message;
                    end if;
                end if;
            elsif leaf <= 15 then
                if leaf <= 11 then
                    if leaf <= 9 then
                        if leaf <= 8 then
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_8 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(consume.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        else
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_9 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(consume.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        end if;
                    else
                        if leaf <= 10 then
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_10 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(consume.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        else
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_11 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(consume.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        end if;
                    end if;
                else
                    if leaf <= 13 then
                        if leaf <= 12 then
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_12 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(consume.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        else
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_13 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(consume.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        end if;
                    else
                        if leaf <= 14 then
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_14 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(consume.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        else
                            select
                                number,
                                m.log_offset,
                                m.published_at,
                                m.key,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_15 as m
                            where m.partition_id = home_id
                                and m.log_offset >= position
                                and m.log_offset < position + coalesce(consume.max_messages, 100)
                            order by m.log_offset desc
                            limit 1
                            into last_message;
                        end if;
                    end if;
                end if;
            else
                execute format($leaf$
                    select
                        $1,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_%1$s as m
                    where m.partition_id = $2
                        and m.log_offset >= $3
                        and m.log_offset < $3 + coalesce($4, 100)
                    order by m.log_offset desc
                    limit 1
                $leaf$, leaf)
                into last_message
                using number, home_id, position, consume.max_messages;
            end if;

            -- Only a partition that has something to read is locked.
            if last_message.log_offset is not null then
                perform
                from pgq.group_partition as l
                where l.group_id = target_id
                    and l.partition = number
                    and l.trimmed_seq <= current_seq
                for no key update skip locked;

                -- Where another member was faster, its row of the journal has this number, or the
                -- journal was trimmed above it.
                if found then
                    insert into pgq.group_position (
                        group_id,
                        partition,
                        seq,
                        first_offset,
                        next_offset,
                        recorded_at,
                        leased_until,
                        lease_token,
                        lease_last_offset
                    )
                    values (
                        target_id,
                        number,
                        current_seq + 1,
                        position,
                        case when token is null then last_message.log_offset + 1 else position end,
                        pgq._clock(),
                        pgq._clock() + keep,
                        token,
                        case when token is not null then last_message.log_offset end
                    )
                    on conflict do nothing
                    returning greatest(next_offset - 1, lease_last_offset)
                    into taken_to;
                end if;
            end if;
        end if;
    end if;

    if taken_to = position then
        return next last_message;
        return;
    end if;
    if taken_to is null then
        claimed := pgq._claim_any(
            consume.topic collate "C",
            consume.consumer_group,
            consume.max_messages,
            consume.partition,
            null
        );
        if claimed.partition is null then
            return;
        end if;
        number := claimed.partition;
        home_id := claimed.partition_id;
        leaf := claimed.segment;
        position := claimed.first_offset;
        taken_to := claimed.last_offset;
    end if;

    if leaf is not null then
        if leaf = 0 then
            return query
            select
                number,
                m.log_offset,
                m.published_at,
                m.key,
                m.headers,
                m.payload,
                m.body
            from pgq.message_0 as m
            where m.partition_id = home_id
                and m.log_offset between position and taken_to
            order by m.log_offset;
        elsif leaf = 1 then
            return query
            select
                number,
                m.log_offset,
                m.published_at,
                m.key,
                m.headers,
                m.payload,
                m.body
            from pgq.message_1 as m
            where m.partition_id = home_id
                and m.log_offset between position and taken_to
            order by m.log_offset;
        elsif leaf <= 3 then
            if leaf <= 2 then
                return query
                select
                    number,
                    m.log_offset,
                    m.published_at,
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_2 as m
                where m.partition_id = home_id
                    and m.log_offset between position and taken_to
                order by m.log_offset;
            else
                return query
                select
                    number,
                    m.log_offset,
                    m.published_at,
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_3 as m
                where m.partition_id = home_id
                    and m.log_offset between position and taken_to
                order by m.log_offset;
            end if;
        elsif leaf <= 7 then
            if leaf <= 5 then
                if leaf <= 4 then
                    return query
                    select
                        number,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_4 as m
                    where m.partition_id = home_id
                        and m.log_offset between position and taken_to
                    order by m.log_offset;
                else
                    return query
                    select
                        number,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_5 as m
                    where m.partition_id = home_id
                        and m.log_offset between position and taken_to
                    order by m.log_offset;
                end if;
            else
                if leaf <= 6 then
                    return query
                    select
                        number,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_6 as m
                    where m.partition_id = home_id
                        and m.log_offset between position and taken_to
                    order by m.log_offset;
                else
                    return query
                    select
                        number,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_7 as m
                    where m.partition_id = home_id
                        and m.log_offset between position and taken_to
                    order by m.log_offset;
                end if;
            end if;
        elsif leaf <= 15 then
            if leaf <= 11 then
                if leaf <= 9 then
                    if leaf <= 8 then
                        return query
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_8 as m
                        where m.partition_id = home_id
                            and m.log_offset between position and taken_to
                        order by m.log_offset;
                    else
                        return query
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_9 as m
                        where m.partition_id = home_id
                            and m.log_offset between position and taken_to
                        order by m.log_offset;
                    end if;
                else
                    if leaf <= 10 then
                        return query
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_10 as m
                        where m.partition_id = home_id
                            and m.log_offset between position and taken_to
                        order by m.log_offset;
                    else
                        return query
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_11 as m
                        where m.partition_id = home_id
                            and m.log_offset between position and taken_to
                        order by m.log_offset;
                    end if;
                end if;
            else
                if leaf <= 13 then
                    if leaf <= 12 then
                        return query
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_12 as m
                        where m.partition_id = home_id
                            and m.log_offset between position and taken_to
                        order by m.log_offset;
                    else
                        return query
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_13 as m
                        where m.partition_id = home_id
                            and m.log_offset between position and taken_to
                        order by m.log_offset;
                    end if;
                else
                    if leaf <= 14 then
                        return query
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_14 as m
                        where m.partition_id = home_id
                            and m.log_offset between position and taken_to
                        order by m.log_offset;
                    else
                        return query
                        select
                            number,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_15 as m
                        where m.partition_id = home_id
                            and m.log_offset between position and taken_to
                        order by m.log_offset;
                    end if;
                end if;
            end if;
        else
            return query execute format($leaf$
                select
                    $1,
                    m.log_offset,
                    m.published_at,
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_%1$s as m
                where m.partition_id = $2
                    and m.log_offset between $3 and $4
                order by m.log_offset
            $leaf$, leaf)
            using number, home_id, position, taken_to;
        end if;
    else
        return query
        select m.*
        from pgq._messages_across(home_id, number, position, taken_to) as m;
    end if;

    -- Cleanup may have emptied a segment since the claim.
    get diagnostics read_rows = row_count;
    if read_rows <> taken_to - position + 1 then
        perform pgq._fail_truncated(consume.topic collate "C");
    end if;
end
$$;

create or replace function pgq.release_poll(
    topic text,
    consumer_group text,
    partition integer,
    lease_token uuid
)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    state pgq._group_state;
begin
    perform pgq._check_lease_token(release_poll.lease_token);
    if release_poll.partition is null then
        perform pgq._fail_unknown_partition(release_poll.topic collate "C", null, null);
    end if;

    state := pgq._lock_group(
        release_poll.topic collate "C", release_poll.consumer_group, release_poll.partition, false
    );
    if release_poll.lease_token is distinct from state.lease_token then
        perform pgq._keep_position(state);
        return false;
    end if;

    state.attempt := state.attempt - 1;
    perform pgq._append_position(state, state.next_offset, null, null);
    return true;
end
$$;

comment on function pgq.release_poll(text, text, integer, uuid) is
'Gives back a partition that poll leased; false when the caller does not hold it any more.
What was not committed goes to the next member at once, and this attempt at it does not count; for
what could not be processed there is nack_offsets. A lease that has run out still counts as long as
no other member got the partition.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ007 unknown partition, 22004 a required
argument is null, 40001 above READ COMMITTED when another transaction was first (try again).';

create function pgq.nack_offsets(
    topic text,
    consumer_group text,
    partition integer,
    lease_token uuid default null,
    first_offset bigint default null,
    last_offset bigint default null,
    delay interval default null,
    error text default null
)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    state pgq._group_state;
    held_until timestamptz;
begin
    if (nack_offsets.lease_token is null) = (nack_offsets.first_offset is null) then
        raise exception '"lease_token", "first_offset": exactly one is needed'
            using errcode = '22023';
    end if;
    if (nack_offsets.first_offset is null) <> (nack_offsets.last_offset is null)
        or nack_offsets.first_offset > nack_offsets.last_offset
    then
        raise exception 'argument "last_offset" must be given with "first_offset", and not be below'
            using errcode = '22023';
    end if;
    if nack_offsets.delay is not null then
        perform pgq._check_interval('delay', nack_offsets.delay, true);
    end if;
    if nack_offsets.partition is null then
        perform pgq._fail_unknown_partition(nack_offsets.topic collate "C", null, null);
    end if;

    state := pgq._lock_group(
        nack_offsets.topic collate "C",
        nack_offsets.consumer_group,
        nack_offsets.partition,
        false
    );
    if nack_offsets.last_offset > state.last_offset then
        perform pgq._fail_out_of_range(
            nack_offsets.topic collate "C",
            state.partition,
            nack_offsets.last_offset,
            pgq._first_available(state.partition_id),
            state.last_offset,
            false
        );
    end if;

    if nack_offsets.first_offset <> state.next_offset
        or (
            nack_offsets.lease_token is distinct from state.lease_token
            and (nack_offsets.lease_token is not null or state.leased_until > pgq._clock())
        )
    then
        perform pgq._keep_position(state);
        return false;
    end if;

    -- A poll has counted the attempt, unless the group began to count them only later.
    state.attempt := case
        when nack_offsets.lease_token is not null then greatest(state.attempt, 1)
        else coalesce(state.attempt, 0) + 1
    end;
    state.tried_offset := greatest(
        state.tried_offset, nack_offsets.last_offset, state.lease_last_offset
    );
    state.last_error := coalesce(nack_offsets.error, state.last_error);
    held_until := pgq._clock() + nack_offsets.delay;

    -- What retention has removed is left to the next claim.
    if state.attempt >= state.max_attempts
        and state.next_offset >= pgq._first_available(state.partition_id)
    then
        perform pgq._give_up(
            nack_offsets.topic collate "C", nack_offsets.consumer_group, state, held_until
        );
    else
        perform pgq._append_position(state, state.next_offset, held_until, null);
    end if;
    return true;
end
$$;

revoke all on function pgq.nack_offsets from public;

comment on function pgq.nack_offsets(
    text, text, integer, uuid, bigint, bigint, interval, text
) is
'Gives back messages that failed; false when the caller does not hold it any more.
They come again at once, or after delay; until then nobody gets anything of this partition. error:
what went wrong. In a group with a max_attempts this is what attempts are counted for: when a batch
has failed so often, its messages are given out one by one, and the one that fails so often itself
is published to the dead_letter_topic; the group goes on behind it. Messages of poll are named by
their lease_token; commit first what was processed before the one that failed. Of consume and
claim_offsets nothing stays after a rollback, so they are named by the first_offset and last_offset
that these gave, in a transaction of its own. False, and nothing changed: the token is not that of
the latest poll, or the group does not stand at first_offset, or a member holds a lease. A lease
that has run out still counts as long as no other member got the partition.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 last_offset is above the newest message,
MQ007 unknown partition, 22004 a required argument is null, 22023 neither lease_token nor
first_offset, or both, or a bad last_offset or delay, 40001 above READ COMMITTED when another
transaction was first, or at any level when retention removes what is being read (try again).';

create or replace function pgq.seek(
    topic text,
    consumer_group text,
    partition integer default null,
    log_offset bigint default null,
    published_at timestamptz default null,
    start text default null
)
returns setof pgq.seek_result
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    number integer;
    state pgq._group_state;
    moved pgq.seek_result;
    first_available bigint;
begin
    if num_nonnulls(seek.log_offset, seek.published_at, seek.start) <> 1 then
        raise exception '"log_offset", "published_at", "start": exactly one is needed'
            using errcode = '22023';
    end if;
    if seek.log_offset is not null and seek.partition is null then
        raise exception 'argument "partition" must be given with "log_offset"'
            using errcode = '22023';
    end if;
    if seek.start collate "C" not in ('earliest', 'latest') then
        raise exception 'argument "start" must be earliest or latest'
            using errcode = '22023';
    end if;
    -- Where the topic is dropped, or made anew, between the check and the partitions: look
    -- again.
    loop
        if pgq._check_group(seek.topic collate "C", seek.consumer_group, seek.partition)
            and seek.start collate "C" = 'latest'
        then
            -- What was published before is not to be read, though it may have no offsets yet.
            perform
            from pgq._assign_all(seek.topic collate "C", seek.partition, null);
        end if;

        -- In ascending order, as everywhere, so that two callers cannot block each other.
        for number in
            select p.partition
            from pgq.topic as t
            inner join pgq.partition as p on p.topic_id = t.topic_id
            where t.topic = seek.topic collate "C"
                and p.partition = coalesce(seek.partition, p.partition)
            order by p.partition
        loop
            state := pgq._lock_group(seek.topic collate "C", seek.consumer_group, number, false);
            first_available := pgq._first_available(state.partition_id);
            moved.partition := number;
            moved.position := case
                when seek.log_offset is not null then seek.log_offset
                when seek.start collate "C" = 'earliest' then first_available
                when seek.start collate "C" = 'latest' then state.last_offset + 1
                else pgq._offset_at(
                    state.partition_id, seek.published_at, first_available, state.last_offset
                )
            end;

            if moved.position not between first_available and state.last_offset + 1 then
                perform pgq._fail_out_of_range(
                    seek.topic collate "C",
                    number,
                    seek.log_offset,
                    first_available,
                    state.last_offset,
                    false
                );
            end if;

            state.attempt := null;
            state.last_error := null;
            state.tried_offset := null;
            state.single_offset := null;
            perform pgq._append_position(state, moved.position, null, null);
            return next moved;
        end loop;
        exit when found;
    end loop;
end
$$;

comment on function pgq.seek(text, text, integer, bigint, timestamptz, text) is
'Moves the position of a consumer group back or ahead, and returns it: a row per partition.
The position is the offset that the group reads next. Give one of: log_offset (that message is read
next; needs a partition), published_at (the first message published then or later is read next),
start (earliest or latest). Without a partition: all of them. A member that holds a lease loses it.
Attempts are counted anew.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 there is no such offset, MQ007 unknown
partition, 22004 a required argument is null, 22023 not exactly one target, or a bad one, 40001
above READ COMMITTED when another transaction was first, or at any level when retention removes
what is being read (try again).';

create function pgq._assign_staged()
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
    full_ones boolean := false;
begin
    for target in
        select
            t.topic,
            sum(r.last_offset - r.first_offset + 1)::bigint as amount,
            bool_or(r.last_offset - r.first_offset + 1 = 1000000) as full
        from pgq.topic as t
        cross join lateral pgq._assign_all(t.topic, null, 1000000) as r
        where t.deferred
        group by t.topic
        order by t.topic
    loop
        full_ones := full_ones or target.full;
        return next row('offsets assigned', target.topic, target.amount)::pgq.cleanup_action;
    end loop;

    if full_ones then
        return next row('more', 'offsets', 1)::pgq.cleanup_action;
    end if;
end
$$;

revoke all on function pgq._assign_staged from public;

comment on function pgq._assign_staged() is
'The part of cleanup that gives offsets to what nobody has consumed yet: so a segment can be closed,
and retention counts.';

create function pgq._leave_segment(segment integer)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    place record;
begin
    for place in
        select
            p.partition_id,
            p.topic,
            row(
                p.partition,
                p.partition_id,
                p.segment,
                p.segment_first_offset,
                p.segment_entered_at,
                p.segment_until,
                p.followed,
                p.deferred
            )::pgq._partition_state as state
        from pgq.partition as p
        where _leave_segment.segment = any(p.left_segments)
        order by p.partition_id
        for no key update of p skip locked
    loop
        perform pgq._assign(place.topic, place.state, null);

        update pgq.partition as p
        set left_segments = array_remove(p.left_segments, _leave_segment.segment)
        where p.partition_id = place.partition_id;
    end loop;

    return not exists (
        select
        from pgq.partition as p
        where _leave_segment.segment = any(p.left_segments)
    );
end
$$;

revoke all on function pgq._leave_segment from public;

comment on function pgq._leave_segment(integer) is
'Gives offsets to what is still staged in a segment that nobody can write to any more, which moves
it to where its partition writes to now; false when a partition was locked.';

create function pgq._check_unique_key(unique_key text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if length(_check_unique_key.unique_key) not between 1 and 255 then
        raise exception 'argument "unique_key" must have 1 to 255 characters'
            using errcode = '22023';
    end if;
end
$$;

revoke all on function pgq._check_unique_key from public;

comment on function pgq._check_unique_key(text) is
'Refuses a unique key that is empty or long (22023).';

create function pgq._check_unique_keys(unique_keys text[], size integer)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if array_ndims(_check_unique_keys.unique_keys) > 1 then
        raise exception 'the arrays of a batch must have one dimension'
            using errcode = '22023';
    end if;
    if cardinality(_check_unique_keys.unique_keys) <> _check_unique_keys.size then
        raise exception 'the arrays of a batch must have the same length'
            using errcode = '22023',
                detail = format(
                    'messages: %s, unique_keys: %s',
                    _check_unique_keys.size,
                    cardinality(_check_unique_keys.unique_keys)
                );
    end if;

    if exists (
        select
        from unnest(_check_unique_keys.unique_keys) as k (unique_key)
        where length(k.unique_key) not between 1 and 255
    )
    then
        raise exception 'argument "unique_keys" must contain texts of 1 to 255 characters'
            using errcode = '22023';
    end if;
end
$$;

revoke all on function pgq._check_unique_keys from public;

comment on function pgq._check_unique_keys(text[], integer) is
'Refuses unique keys that are empty or long, or not as many as the messages of a batch (22023).';

create or replace function pgq._check_queue_settings(settings pgq.queue_info)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    perform pgq._check_interval('lease', _check_queue_settings.settings.lease, false);
    perform pgq._check_interval('delay', _check_queue_settings.settings.delay, true);
    perform pgq._check_interval('backoff', _check_queue_settings.settings.backoff, true);
    perform pgq._check_interval('backoff_max', _check_queue_settings.settings.backoff_max, true);
    perform pgq._check_idempotency_window(_check_queue_settings.settings.idempotency_window);
    if _check_queue_settings.settings.max_attempts is not null then
        perform pgq._check_count(
            'max_attempts', _check_queue_settings.settings.max_attempts, 1, 2147483647
        );
    end if;
    if _check_queue_settings.settings.backoff_jitter not between 0 and 1 then
        raise exception 'argument "backoff_jitter" must be from 0 to 1'
            using errcode = '22023';
    end if;
    if _check_queue_settings.settings.unique_until collate "C"
        not in ('finished', 'claimed', 'removed')
    then
        raise exception 'argument "unique_until" must be finished, claimed or removed'
            using errcode = '22023';
    end if;
    if _check_queue_settings.settings.after_dead_letter collate "C" not in ('continue', 'stop') then
        raise exception 'argument "after_dead_letter" must be continue or stop'
            using errcode = '22023';
    end if;
    if _check_queue_settings.settings.max_leased is not null then
        perform pgq._check_count(
            'max_leased', _check_queue_settings.settings.max_leased, 1, 10000
        );
    end if;
    if _check_queue_settings.settings.max_unfinished is not null then
        perform pgq._check_count(
            'max_unfinished', _check_queue_settings.settings.max_unfinished, 1, 2147483647
        );
    end if;
    if _check_queue_settings.settings.rate_limit is not null then
        perform pgq._check_count(
            'rate_limit', _check_queue_settings.settings.rate_limit, 1, 1000000
        );
    end if;
    if _check_queue_settings.settings.rate_interval is not null then
        perform pgq._check_interval(
            'rate_interval', _check_queue_settings.settings.rate_interval, false
        );
    end if;
    if _check_queue_settings.settings.rate_burst is not null then
        perform pgq._check_count(
            'rate_burst', _check_queue_settings.settings.rate_burst, 1, 1000000
        );
    end if;
    if _check_queue_settings.settings.retention is not null then
        perform pgq._check_interval('retention', _check_queue_settings.settings.retention, false);
    end if;
    if _check_queue_settings.settings.job_ttl is not null then
        perform pgq._check_interval('job_ttl', _check_queue_settings.settings.job_ttl, false);
        -- Whenever both are added to a moment.
        if pgq._shortest(
            _check_queue_settings.settings.job_ttl - _check_queue_settings.settings.delay
        ) <= interval '0'
        then
            raise exception 'argument "delay" must be shorter than "job_ttl"'
                using errcode = '22023',
                    detail = format(
                        'Delay: %s; job_ttl: %s.',
                        _check_queue_settings.settings.delay,
                        _check_queue_settings.settings.job_ttl
                    ),
                    hint = 'A month may have 28 to 31 days, and a day 23 to 25 hours.';
        end if;
    end if;
end
$$;

create function pgq._check_rate_limit(settings pgq.queue_info)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_rate_limit.settings.rate_limit is null
        and (
            _check_rate_limit.settings.rate_interval is not null
            or _check_rate_limit.settings.rate_burst is not null
        )
    then
        raise exception 'argument "%" must come with "rate_limit"',
            case
                when _check_rate_limit.settings.rate_interval is not null then 'rate_interval'
                else 'rate_burst'
            end
            using errcode = '22023';
    end if;
end
$$;

revoke all on function pgq._check_rate_limit from public;

comment on function pgq._check_rate_limit(pgq.queue_info) is
'Refuses what says more about a rate_limit where there is none (22023).';

create function pgq._let_next(queue_id bigint, ordered_key text, after_id bigint)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    back_id bigint;
    number bigint;
    since timestamptz;
    expired boolean;
    sole boolean := false;
    cleaned boolean := false;
begin
    loop
        select k.from_id
        into back_id
        from pgq.ordered_key as k
        where k.queue_id = _let_next.queue_id
            and k.ordered_key = _let_next.ordered_key collate "C";
        -- The queue was dropped.
        if not found then
            return true;
        end if;

        -- The ids of a key are in the order of its commits: what is seen first is the first. What a
        -- redrive has put back in front is looked for from its id on.
        select j.job_id, j.due_at, coalesce(j.expires_at <= pgq._clock(), false)
        into number, since, expired
        from pgq.job as j
        where j.queue_id = _let_next.queue_id
            and j.ordered_key = _let_next.ordered_key collate "C"
            and j.job_id + 0 > least(_let_next.after_id, back_id - 1)
        order by j.job_id + 0
        limit 1;

        if not found then
            -- An older snapshot cannot tell.
            if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
                return false;
            end if;

            if sole then
                delete from pgq.ordered_key as k
                where k.queue_id = _let_next.queue_id
                    and k.ordered_key = _let_next.ordered_key collate "C";
                return true;
            end if;

            -- Somebody may be enqueuing the next, and have committed since. If not yet, nobody
            -- waits for him here.
            perform
            from pgq.ordered_key as k
            where k.queue_id = _let_next.queue_id
                and k.ordered_key = _let_next.ordered_key collate "C"
            for update skip locked;
            if not found then
                return false;
            end if;
            sole := true;
            continue;
        end if;

        exit when not expired or cleaned or since is null;

        -- Not one after the other, each by a cleanup.
        perform
        from pgq._expire_jobs(
            array(
                select j.job_id
                from pgq.job as j
                where j.queue_id = _let_next.queue_id
                    and j.ordered_key = _let_next.ordered_key collate "C"
                    and j.job_id + 0 >= number
                    and j.due_at is not null
                order by j.job_id + 0
                limit 1000
            ),
            pgq._clock()
        );
        cleaned := true;
    end loop;

    -- It is where claims look already.
    if since is null then
        return true;
    end if;

    -- Whoever cancels or moves it has the row: that may take long, or be rolled back.
    perform
    from pgq.job as j
    where j.job_id = number
        and j.due_at is not null
    for update skip locked;
    if not found then
        return false;
    end if;

    -- The clock is read behind the lock: by then this transaction has its id, on which the floor
    -- relies.
    with gone as (
        delete from pgq.job as j
        where j.job_id = number
        returning j.*
    )

    insert into pgq.job (
        job_id,
        queue_id,
        partition_id,
        log_offset,
        expires_at,
        visible_at,
        segment,
        attempt,
        priority,
        label,
        last_error,
        unique_key,
        max_attempts,
        ordered_key
    )
    select
        g.job_id,
        g.queue_id,
        g.partition_id,
        g.log_offset,
        g.expires_at,
        greatest(g.due_at, pgq._clock()),
        g.segment,
        g.attempt,
        g.priority,
        g.label,
        g.last_error,
        g.unique_key,
        g.max_attempts,
        g.ordered_key
    from gone as g;

    if back_id is not null then
        perform
        from pgq.ordered_key as k
        where k.queue_id = _let_next.queue_id
            and k.ordered_key = _let_next.ordered_key collate "C"
            and k.from_id = back_id
        for no key update skip locked;
        if found then
            update pgq.ordered_key as k
            set from_id = null
            where k.queue_id = _let_next.queue_id
                and k.ordered_key = _let_next.ordered_key collate "C";
        end if;
    end if;
    return true;
end
$$;

revoke all on function pgq._let_next from public;

comment on function pgq._let_next(bigint, text, bigint) is
'Brings up the next job of an ordered key, whose first one has ended, to where claims look, or lets
the key go when there is none. after_id: the one that has ended. False: that cannot be told yet, and
has to be noted.';

create function pgq._free_keys(ended pgq._ended_job[])
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    gone record;
begin
    delete from pgq.unique_job as u
    where u.job_id = any(array(
        select e.job_id
        from unnest(_free_keys.ended) as e
        where e.unique_key is not null
    ));

    for gone in
        select e.queue_id, e.ordered_key, e.job_id
        from unnest(_free_keys.ended) as e
        where e.ordered_key is not null
        order by e.queue_id, e.ordered_key
    loop
        continue when pgq._let_next(gone.queue_id, gone.ordered_key, gone.job_id);

        insert into pgq.ordered_note (queue_id, look_at, ordered_key, after_id, tries)
        values (gone.queue_id, pgq._clock(), gone.ordered_key, gone.job_id, 0);
    end loop;
end
$$;

revoke all on function pgq._free_keys from public;

comment on function pgq._free_keys(pgq._ended_job[]) is
'Takes their unique keys from jobs that have ended, and brings up the next of their ordered keys.
The caller has locked their rows, or removed them.';

create function pgq._settle_notes(
    queue_id bigint,
    note_floor timestamptz,
    moment timestamptz,
    max_notes integer
)
returns integer
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    note pgq.ordered_note;
    settled integer := 0;
begin
    for note in
        select n.*
        from pgq.ordered_note as n
        where n.queue_id = _settle_notes.queue_id
            and n.look_at between _settle_notes.note_floor and _settle_notes.moment
        order by n.look_at
        limit _settle_notes.max_notes
        for update skip locked
    loop
        delete from pgq.ordered_note as n
        where n.queue_id = note.queue_id
            and n.look_at = note.look_at
            and n.ordered_key = note.ordered_key;

        if pgq._let_next(note.queue_id, note.ordered_key, note.after_id) then
            settled := settled + 1;
            continue;
        end if;

        -- Those that an open transaction holds up must not stand in the way of others.
        insert into pgq.ordered_note (queue_id, look_at, ordered_key, after_id, tries)
        values (
            note.queue_id,
            pgq._clock() + least(interval '10 milliseconds' * 2 ^ note.tries, interval '1 second'),
            note.ordered_key,
            note.after_id,
            least(note.tries + 1, 10)
        );
    end loop;

    return settled;
end
$$;

revoke all on function pgq._settle_notes from public;

comment on function pgq._settle_notes(bigint, timestamptz, timestamptz, integer) is
'Brings up the next jobs of noted keys of an ordered queue, for so many notes at most, and returns
how many were settled; the others are looked at later.';

create function pgq._join_order(queue_id bigint, ordered_keys text[])
returns text[]
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    wish text collate "C";
    free text[] := '{}';
begin
    if exists (
        select
        from unnest(_join_order.ordered_keys) as w (ordered_key)
        where length(w.ordered_key) > 255
    )
    then
        raise exception 'argument "key" must have at most 255 characters'
            using errcode = '22023',
                detail = 'The queue is ordered.';
    end if;

    -- One after the other, in the order of the keys: who waits for one has none behind it. It waits
    -- for whoever adds a job of the key, or has just ended the last one. Above READ COMMITTED it
    -- raises 40001 where the snapshot does not show whether the key is taken.
    for wish in
        select distinct w.ordered_key collate "C" as ordered_key
        from unnest(_join_order.ordered_keys) as w (ordered_key)
        where w.ordered_key is not null
        order by ordered_key
    loop
        loop
            perform
            from pgq.ordered_key as k
            where k.queue_id = _join_order.queue_id
                and k.ordered_key = wish
            for no key update;
            exit when found;

            insert into pgq.ordered_key (queue_id, ordered_key)
            values (_join_order.queue_id, wish)
            on conflict do nothing;
            if found then
                free := free || wish;
                exit;
            end if;
        end loop;
    end loop;

    return free;
end
$$;

revoke all on function pgq._join_order from public;

comment on function pgq._join_order(bigint, text[]) is
'Locks keys of an ordered queue until the transaction ends, and returns those that were free: the
caller has to give them a first job, or let them go. Ids that are taken from now on are in the order
of the commits.';

create function pgq._turns(
    queue_id bigint,
    ordered_keys text[],
    free text[],
    after_id bigint
)
returns boolean[]
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    perform pgq._free_keys(array(
        select row(
            coalesce(_turns.after_id, pg_sequence_last_value('pgq.job_id'), 0),
            _turns.queue_id,
            null,
            f.ordered_key
        )::pgq._ended_job
        from (
            select unnest(_turns.free) as ordered_key
            except
            select unnest(_turns.ordered_keys)
        ) as f
    ));

    return array(
        select
            w.ordered_key is not null
            and (
                f.ordered_key is null
                or row_number() over (partition by w.ordered_key order by w.place) > 1
            )
        from unnest(_turns.ordered_keys) with ordinality as w (ordered_key, place)
        left join unnest(_turns.free) as f (ordered_key)
            on f.ordered_key collate "C" = w.ordered_key collate "C"
        order by w.place
    );
end
$$;

revoke all on function pgq._turns from public;

comment on function pgq._turns(bigint, text[], text[], bigint) is
'Which of new jobs, in the order of their ids, wait for another one of their key. free: what
_join_order returned; those that get none of these jobs are let go, or go to the next that has a
higher id than after_id; null: than all.';

create or replace function pgq._queue_info(queue text)
returns setof pgq.queue_info
language sql
stable
parallel safe
rows 1
as $$
select
    q.queue,
    q.lease,
    q.max_attempts,
    q.delay,
    q.job_ttl,
    q.retention,
    q.backoff,
    q.backoff_max,
    q.backoff_jitter,
    q.archive,
    q.notify,
    q.paused,
    q.created_at,
    q.updated_at,
    q.idempotency_window,
    q.unique_until,
    q.ordered,
    q.after_dead_letter,
    q.max_leased,
    q.rate_limit,
    q.rate_interval,
    q.rate_burst,
    q.max_unfinished
from pgq.queue as q
where q.queue = _queue_info.queue
$$;

create function pgq.create_queue(
    queue text,
    lease interval default null,
    max_attempts integer default null,
    delay interval default null,
    job_ttl interval default null,
    retention interval default null,
    backoff interval default null,
    backoff_max interval default null,
    backoff_jitter double precision default null,
    archive boolean default null,
    notify boolean default null,
    idempotency_window interval default null,
    unique_until text default null,
    ordered boolean default null,
    after_dead_letter text default null,
    max_leased integer default null,
    rate_limit integer default null,
    rate_interval interval default null,
    rate_burst integer default null,
    max_unfinished integer default null,
    no_limit text[] default null
)
returns setof pgq.queue_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    settings pgq.queue_info;
    existing pgq.queue_info;
    new_id bigint;
    class pgq.storage_class;
begin
    perform pgq._check_name('queue', create_queue.queue collate "C");

    perform pgq._check_no_limit(
        create_queue.no_limit collate "C",
        jsonb_build_object(
            'job_ttl', create_queue.job_ttl,
            'max_attempts', create_queue.max_attempts,
            'max_leased', create_queue.max_leased,
            'max_unfinished', create_queue.max_unfinished,
            'rate_limit', create_queue.rate_limit,
            'retention', create_queue.retention
        )
    );

    settings.queue := create_queue.queue;
    settings.lease := coalesce(create_queue.lease, '30 seconds');
    if ('max_attempts' = any(create_queue.no_limit collate "C")) is not true then
        settings.max_attempts := coalesce(create_queue.max_attempts, 5);
    end if;
    settings.delay := coalesce(create_queue.delay, '0');
    if ('job_ttl' = any(create_queue.no_limit collate "C")) is not true then
        settings.job_ttl := coalesce(create_queue.job_ttl, '14 days');
    end if;
    if ('retention' = any(create_queue.no_limit collate "C")) is not true then
        settings.retention := coalesce(create_queue.retention, '14 days');
    end if;
    settings.backoff := coalesce(create_queue.backoff, '1 second');
    settings.backoff_max := coalesce(create_queue.backoff_max, '1 hour');
    settings.backoff_jitter := coalesce(create_queue.backoff_jitter, 0.1);
    settings.archive := coalesce(create_queue.archive, true);
    settings.notify := coalesce(create_queue.notify, false);
    settings.idempotency_window := coalesce(create_queue.idempotency_window, '1 day');
    settings.unique_until := coalesce(create_queue.unique_until, 'finished');
    settings.ordered := coalesce(create_queue.ordered, false);
    settings.after_dead_letter := coalesce(create_queue.after_dead_letter, 'continue');
    settings.max_leased := create_queue.max_leased;
    settings.rate_limit := create_queue.rate_limit;
    settings.rate_interval := create_queue.rate_interval;
    settings.rate_burst := create_queue.rate_burst;
    if settings.rate_limit is not null then
        settings.rate_interval := coalesce(settings.rate_interval, '1 second');
        settings.rate_burst := coalesce(settings.rate_burst, settings.rate_limit);
    end if;
    settings.max_unfinished := create_queue.max_unfinished;
    perform pgq._check_queue_settings(settings);

    -- One that is there is found without a lock.
    select i.*
    into existing
    from pgq._queue_info(create_queue.queue collate "C") as i;

    if existing.queue is not null then
        -- An old snapshot may show one that was dropped since; it cannot be locked.
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            perform
            from pgq.queue as q
            where q.queue = create_queue.queue collate "C"
            for key share;
        end if;

        perform pgq._check_settings_equal(
            'queue',
            create_queue.queue collate "C",
            jsonb_build_object(
                'lease', create_queue.lease,
                'max_attempts', create_queue.max_attempts,
                'delay', create_queue.delay,
                'job_ttl', create_queue.job_ttl,
                'retention', create_queue.retention,
                'backoff', create_queue.backoff,
                'backoff_max', create_queue.backoff_max,
                'backoff_jitter', create_queue.backoff_jitter,
                'archive', create_queue.archive,
                'notify', create_queue.notify,
                'idempotency_window', create_queue.idempotency_window,
                'unique_until', create_queue.unique_until,
                'ordered', create_queue.ordered,
                'after_dead_letter', create_queue.after_dead_letter,
                'max_leased', create_queue.max_leased,
                'rate_limit', create_queue.rate_limit,
                'rate_interval', create_queue.rate_interval,
                'rate_burst', create_queue.rate_burst,
                'max_unfinished', create_queue.max_unfinished
            ),
            create_queue.no_limit,
            to_jsonb(existing)
        );
        return next existing;
        return;
    end if;

    perform pgq._check_rate_limit(settings);
    class := pgq._storage_class(settings.retention, null, null);
    insert into pgq.queue (
        queue,
        partition_id,
        storage_class_id,
        segment,
        lease,
        max_attempts,
        delay,
        job_ttl,
        retention,
        backoff,
        backoff_max,
        backoff_jitter,
        archive,
        notify,
        created_at,
        updated_at,
        idempotency_window,
        unique_until,
        ordered,
        after_dead_letter,
        max_leased,
        rate_limit,
        rate_interval,
        rate_burst,
        max_unfinished
    )
    values (
        settings.queue,
        nextval('pgq.partition_id'),
        class.storage_class_id,
        class.segment,
        settings.lease,
        settings.max_attempts,
        settings.delay,
        settings.job_ttl,
        settings.retention,
        settings.backoff,
        settings.backoff_max,
        settings.backoff_jitter,
        settings.archive,
        settings.notify,
        pgq._clock(),
        pgq._clock(),
        settings.idempotency_window,
        settings.unique_until,
        settings.ordered,
        settings.after_dead_letter,
        settings.max_leased,
        settings.rate_limit,
        settings.rate_interval,
        settings.rate_burst,
        settings.max_unfinished
    )
    on conflict (queue) do nothing
    returning queue_id into new_id;

    if new_id is null then
        -- Another transaction has created it in the meantime.
        return query
        select c.*
        from pgq.create_queue(
            create_queue.queue,
            create_queue.lease,
            create_queue.max_attempts,
            create_queue.delay,
            create_queue.job_ttl,
            create_queue.retention,
            create_queue.backoff,
            create_queue.backoff_max,
            create_queue.backoff_jitter,
            create_queue.archive,
            create_queue.notify,
            create_queue.idempotency_window,
            create_queue.unique_until,
            create_queue.ordered,
            create_queue.after_dead_letter,
            create_queue.max_leased,
            create_queue.rate_limit,
            create_queue.rate_interval,
            create_queue.rate_burst,
            create_queue.max_unfinished,
            create_queue.no_limit
        ) as c;
        return;
    end if;

    insert into pgq.queue_floor_lock (queue_id)
    values (new_id);

    insert into pgq.queue_floor (
        queue_id,
        seq,
        epoch,
        floor_times,
        floor_ids,
        recorded_at,
        safe_at,
        candidate_at,
        candidate_xid,
        note_floor
    )
    values (
        new_id,
        1,
        1,
        array_fill('-infinity'::timestamptz, array[10]),
        array_fill(0::bigint, array[10]),
        '-infinity',
        '-infinity',
        '-infinity',
        '0',
        case when settings.ordered then '-infinity'::timestamptz end
    );

    if settings.max_leased is not null or settings.rate_limit is not null then
        insert into pgq.claim_lock (queue_id, counted_xid)
        values (new_id, pg_current_xact_id());
    end if;

    return query
    select i.*
    from pgq._queue_info(create_queue.queue collate "C") as i;
end
$$;

revoke all on function pgq.create_queue from public;

comment on function pgq.create_queue(
    text,
    interval,
    integer,
    interval,
    interval,
    interval,
    interval,
    interval,
    double precision,
    boolean,
    boolean,
    interval,
    text,
    boolean,
    text,
    integer,
    integer,
    interval,
    integer,
    integer,
    text[]
) is
'Creates a queue and returns it; one that exists is returned if it has the settings that are given.
lease: how long a worker has a job before another one may get it; by default 30 seconds.
max_attempts: attempts before a job is a dead letter; by default 5. delay: from enqueue to the first
attempt; by default none. job_ttl: from enqueue until an unfinished job expires; by default 14 days.
retention: how long dead letters are kept, counted from when they died, and finished jobs, counted
from when they were enqueued; by default 14 days. backoff: the delay before the first retry, by
default 1 second; each further one doubles it up to backoff_max, by default 1 hour, and up to the
share backoff_jitter (0 to 1, by default 0.1) is added at random. archive: a job that ack finishes,
or that expires or is cancelled, is noted among the archived ones, which is the default. notify: an
enqueue notifies the channel pgq_queue with the queue''s name; off by default. idempotency_window:
how long an idempotency key stands for the job that it was given with, from 1 second to 366 days; by
default 1 day; queues and topics with one window share their storage. unique_until: how long a job
keeps others of its unique_key out; by default finished: until it is finished, cancelled, expired,
purged or dead; claimed: only while it waits, so not while a worker has it; removed: a dead letter
does so too, until it is redriven and finished, or purged, or removed by retention. ordered: jobs of
one key are handed out one at a time, in the order in which their enqueues were committed, whatever
their priorities and delays; those without a key never wait; off by default, and fixed. What the
next job waits for is that the one before is finished, cancelled, expired, purged or dead.
after_dead_letter, of an ordered queue: by default continue; stop: the jobs of the key wait until
the dead letter is redriven, which then comes first, or purged, or removed by retention.
max_leased (1 to 10000): claims get nothing while so many jobs are leased; by default no limit.
rate_limit (1 to 1000000): claims get so many jobs per rate_interval (by default 1 second), and
after a pause up to rate_burst (1 to 1000000; by default the rate_limit) at once; by default no
limit. Claims of such a queue wait for each other until the transaction ends: they belong into short
ones. max_unfinished: enqueue fails with MQ010 while there are so many unfinished jobs; by default
no limit. no_limit: names of settings that shall have no limit: max_attempts, job_ttl, retention,
max_leased, rate_limit, max_unfinished. So that it can be called at each start of an application,
settings that are not given are not compared.
Errors: MQ005 the queue exists with other settings than those given, 22004 a required argument is
null, 22023 bad name or setting, 40001 above READ COMMITTED when another transaction was first
(try again).';

create function pgq.alter_queue(
    queue text,
    lease interval default null,
    max_attempts integer default null,
    delay interval default null,
    job_ttl interval default null,
    retention interval default null,
    backoff interval default null,
    backoff_max interval default null,
    backoff_jitter double precision default null,
    archive boolean default null,
    notify boolean default null,
    idempotency_window interval default null,
    unique_until text default null,
    after_dead_letter text default null,
    max_leased integer default null,
    rate_limit integer default null,
    rate_interval interval default null,
    rate_burst integer default null,
    max_unfinished integer default null,
    no_limit text[] default null
)
returns setof pgq.queue_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    settings pgq.queue_info;
    class pgq.storage_class;
    target_id bigint;
    store_id bigint;
    attempts_before integer;
    retention_before interval;
    window_before interval;
    limit_before integer;
    leased_before integer;
begin
    loop
        perform
        from pgq.queue as q
        where q.queue = alter_queue.queue collate "C"
        for no key update;

        exit when found;
        perform pgq._check_queue(alter_queue.queue collate "C");
    end loop;
    perform pgq._check_no_limit(
        alter_queue.no_limit collate "C",
        jsonb_build_object(
            'job_ttl', alter_queue.job_ttl,
            'max_attempts', alter_queue.max_attempts,
            'max_leased', alter_queue.max_leased,
            'max_unfinished', alter_queue.max_unfinished,
            'rate_limit', alter_queue.rate_limit,
            'retention', alter_queue.retention
        )
    );

    select i.*
    into settings
    from pgq._queue_info(alter_queue.queue collate "C") as i;

    attempts_before := settings.max_attempts;
    retention_before := settings.retention;
    window_before := settings.idempotency_window;
    leased_before := settings.max_leased;
    limit_before := settings.rate_limit;
    settings.lease := coalesce(alter_queue.lease, settings.lease);
    settings.max_attempts := coalesce(alter_queue.max_attempts, settings.max_attempts);
    settings.delay := coalesce(alter_queue.delay, settings.delay);
    settings.job_ttl := coalesce(alter_queue.job_ttl, settings.job_ttl);
    settings.retention := coalesce(alter_queue.retention, settings.retention);
    settings.backoff := coalesce(alter_queue.backoff, settings.backoff);
    settings.backoff_max := coalesce(alter_queue.backoff_max, settings.backoff_max);
    settings.backoff_jitter := coalesce(alter_queue.backoff_jitter, settings.backoff_jitter);
    settings.archive := coalesce(alter_queue.archive, settings.archive);
    settings.notify := coalesce(alter_queue.notify, settings.notify);
    settings.idempotency_window := coalesce(
        alter_queue.idempotency_window, settings.idempotency_window
    );
    settings.unique_until := coalesce(alter_queue.unique_until, settings.unique_until);
    settings.after_dead_letter := coalesce(
        alter_queue.after_dead_letter, settings.after_dead_letter
    );
    settings.max_leased := coalesce(alter_queue.max_leased, settings.max_leased);
    settings.max_unfinished := coalesce(alter_queue.max_unfinished, settings.max_unfinished);
    if 'max_leased' = any(alter_queue.no_limit collate "C") then
        settings.max_leased := null;
    end if;
    if 'max_unfinished' = any(alter_queue.no_limit collate "C") then
        settings.max_unfinished := null;
    end if;
    settings.rate_limit := coalesce(alter_queue.rate_limit, settings.rate_limit);
    if 'rate_limit' = any(alter_queue.no_limit collate "C") then
        settings.rate_limit := null;
    end if;
    if settings.rate_limit is null then
        settings.rate_interval := alter_queue.rate_interval;
        settings.rate_burst := alter_queue.rate_burst;
    else
        settings.rate_interval := coalesce(
            alter_queue.rate_interval, settings.rate_interval, '1 second'
        );
        -- It goes along with the limit unless it was set apart.
        settings.rate_burst := coalesce(
            alter_queue.rate_burst,
            nullif(settings.rate_burst, limit_before),
            settings.rate_limit
        );
    end if;
    if 'max_attempts' = any(alter_queue.no_limit collate "C") then
        settings.max_attempts := null;
    end if;
    if 'job_ttl' = any(alter_queue.no_limit collate "C") then
        settings.job_ttl := null;
    end if;
    if 'retention' = any(alter_queue.no_limit collate "C") then
        settings.retention := null;
    end if;
    perform pgq._check_queue_settings(settings);
    perform pgq._check_rate_limit(settings);

    class := pgq._storage_class(settings.retention, null, null);
    update pgq.queue as q
    set
        storage_class_id = class.storage_class_id,
        segment = class.segment,
        lease = settings.lease,
        max_attempts = settings.max_attempts,
        delay = settings.delay,
        job_ttl = settings.job_ttl,
        retention = settings.retention,
        backoff = settings.backoff,
        backoff_max = settings.backoff_max,
        backoff_jitter = settings.backoff_jitter,
        archive = settings.archive,
        notify = settings.notify,
        idempotency_window = settings.idempotency_window,
        unique_until = settings.unique_until,
        after_dead_letter = settings.after_dead_letter,
        max_leased = settings.max_leased,
        rate_limit = settings.rate_limit,
        rate_interval = settings.rate_interval,
        rate_burst = settings.rate_burst,
        max_unfinished = settings.max_unfinished,
        updated_at = pgq._clock()
    where q.queue = alter_queue.queue collate "C"
    returning q.queue_id, q.partition_id
    into target_id, store_id;

    perform pgq._note_leftover_jobs(target_id, store_id, retention_before, settings.retention);
    perform pgq._note_former_window(store_id, window_before, settings.idempotency_window);

    if settings.max_attempts < coalesce(attempts_before, 2147483647) then
        insert into pgq.lowered_queue (queue_id, lowered_xid, marked_id)
        values (target_id, pg_current_xact_id(), 0)
        on conflict (queue_id) do update
        set lowered_xid = excluded.lowered_xid,
            horizon = null,
            marked_id = excluded.marked_id,
            missed_id = null;
    end if;

    if settings.max_leased is not null and leased_before is null
        or settings.rate_limit is not null and limit_before is null
    then
        insert into pgq.claim_lock as l (queue_id, counted_xid)
        values (target_id, pg_current_xact_id())
        on conflict (queue_id) do update
        set counted_xid = case
            when leased_before is null then excluded.counted_xid
            else l.counted_xid
        end;
    end if;

    return query
    select i.*
    from pgq._queue_info(alter_queue.queue collate "C") as i;
end
$$;

revoke all on function pgq.alter_queue from public;

comment on function pgq.alter_queue(
    text,
    interval,
    integer,
    interval,
    interval,
    interval,
    interval,
    interval,
    double precision,
    boolean,
    boolean,
    interval,
    text,
    text,
    integer,
    integer,
    interval,
    integer,
    integer,
    text[]
) is
'Changes settings of a queue and returns it; what is null stays as it is.
See create_queue for the settings. no_limit lifts settings: max_attempts, job_ttl, retention,
max_leased, rate_limit, max_unfinished. Jobs that are stored keep their times; a new lease counts
from the next claim. Jobs that have had a lowered max_attempts already become dead letters, but for
those that were enqueued with one of their own. unique_until is asked when a job is claimed or dies:
a dead letter that has kept its key keeps it; after_dead_letter when a job dies. Whether a queue is
ordered cannot be changed. Where there was no retention before, what is finished is kept for the new
one from now on. A new idempotency_window counts for keys noted before as well, from when each was
noted; but what was noted by a shorter one is forgotten when that ends. A max_leased below what is
leased takes no job away: claims get nothing until it is less. rate_burst follows the rate_limit
unless it was given.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad setting, 40001 above
READ COMMITTED when another transaction was first (try again).';

create or replace function pgq.drop_queue(queue text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    target pgq.queue;
    newest_id bigint;
begin
    loop
        delete from pgq.queue as q
        where q.queue = drop_queue.queue collate "C"
        returning q.*
        into target;

        exit when target.queue_id is not null;
        perform pgq._check_queue(drop_queue.queue collate "C");
    end loop;

    -- Runs first: what a claim makes of them meanwhile is found below.
    with doomed as materialized (
        select r.visible_at, r.run_id
        from pgq.job_run as r
        where r.queue_id = target.queue_id
        order by r.visible_at, r.run_id
        for update
    )

    delete from pgq.job_run as r
    using doomed as d
    where r.queue_id = target.queue_id
        and r.visible_at = d.visible_at
        and r.run_id = d.run_id;

    select s.last_value
    into newest_id
    from pgq.job_id as s;

    -- In the order of their ids, as everywhere where several jobs are locked. What is replaced, or
    -- redriven, while this waits for it is found by the next turn; what is enqueued from now on, by
    -- cleanup.
    loop
        with doomed as materialized (
            select j.job_id
            from pgq.job as j
            where j.queue_id = target.queue_id
            order by j.job_id
            for update
        )

        delete from pgq.job as j
        using doomed as d
        where j.job_id = d.job_id;

        with doomed as materialized (
            select d.job_id
            from pgq.dead_job as d
            where d.queue_id = target.queue_id
            order by d.job_id
            for update
        )

        delete from pgq.dead_job as d
        using doomed as g
        where d.job_id = g.job_id;

        exit when not exists (
            select
            from pgq.job as j
            where j.queue_id = target.queue_id
                and j.job_id <= newest_id
        );
    end loop;
    delete from pgq.unique_job as u
    where u.queue_id = target.queue_id;
    delete from pgq.ordered_note as n
    where n.queue_id = target.queue_id;
    -- What somebody has locked is left to cleanup.
    delete from pgq.ordered_key as k
    where k.queue_id = target.queue_id
        and k.ordered_key = any(array(
            select l.ordered_key
            from pgq.ordered_key as l
            where l.queue_id = target.queue_id
            for update skip locked
        ));
    delete from pgq.queue_floor as f
    where f.queue_id = target.queue_id;
    delete from pgq.claim_count as c
    where c.queue_id = target.queue_id;

    perform pgq._note_leftover_jobs(target.queue_id, target.partition_id, target.retention, '0');
end
$$;

comment on function pgq.drop_queue(text) is
'Removes a queue with its jobs, leased, dead and archived ones too.
Jobs that are enqueued at the same time go with it. Its idempotency keys are forgotten: in a new
queue of that name they are new.
Errors: MQ002 unknown queue, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';

create function pgq.purge_queue(
    queue text,
    dead_only boolean default null,
    job_id bigint default null,
    all_jobs boolean default null,
    died_before timestamptz default null
)
returns bigint
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    target_id bigint;
    newest_id bigint;
    gone bigint;
    removed bigint := 0;
    freed pgq._ended_job[];
    keyed pgq._ended_job[] := '{}';
begin
    -- Jobs that came after the snapshot would be overlooked, and no row tells of them.
    perform pgq._check_read_committed('purge_queue');

    select q.queue_id
    into target_id
    from pgq.queue as q
    where q.queue = purge_queue.queue collate "C";

    if target_id is null then
        perform pgq._fail_unknown_queue(purge_queue.queue collate "C");
    end if;
    if num_nonnulls(
        nullif(purge_queue.dead_only, false),
        purge_queue.job_id,
        nullif(purge_queue.all_jobs, false),
        purge_queue.died_before
    ) <> 1 then
        raise exception '"dead_only", "job_id", "all_jobs", "died_before": exactly one is needed'
            using errcode = '22023',
                hint = 'Of all dead letters say dead_only => true, of all jobs all_jobs => true.';
    end if;

    -- Runs first: a claim that turns one into jobs is waited for, and its jobs are among those
    -- below.
    if purge_queue.all_jobs then
        with doomed as materialized (
            select r.visible_at, r.run_id
            from pgq.job_run as r
            where r.queue_id = target_id
            order by r.visible_at, r.run_id
            for update
        ),

        purged as (
            delete from pgq.job_run as r
            using doomed as d
            where r.queue_id = target_id
                and r.visible_at = d.visible_at
                and r.run_id = d.run_id
            returning r.jobs
        )

        select coalesce(sum(p.jobs), 0)
        into removed
        from purged as p;
    end if;

    -- Those that are enqueued from now on are not meant.
    select s.last_value
    into newest_id
    from pgq.job_id as s;

    -- In the order of their ids, as everywhere where several jobs are locked. Dead letters come
    -- last: a job that dies while this waits for its row is then among them. A row that is replaced
    -- by a new one, or a letter that is redriven, while this waits for it is found by the next
    -- turn.
    loop
        if purge_queue.all_jobs then
            with doomed as materialized (
                select j.job_id
                from pgq.job as j
                where j.queue_id = target_id
                    and j.job_id <= newest_id
                order by j.job_id
                for update
            ),

            purged as (
                delete from pgq.job as j
                using doomed as d
                where j.job_id = d.job_id
                returning
                    j.job_id,
                    j.queue_id,
                    j.unique_key,
                    case when j.due_at is null then j.ordered_key end as ordered_key
            )

            select
                count(*),
                array_agg(
                    row(p.job_id, p.queue_id, p.unique_key, p.ordered_key)::pgq._ended_job
                ) filter (
                    where p.unique_key is not null or p.ordered_key is not null
                )
            into gone, freed
            from purged as p;
            removed := removed + gone;
            keyed := keyed || freed;
        end if;

        if purge_queue.job_id is not null then
            -- The queue is written as it stands in no index, so that no plan walks its letters.
            with purged as (
                delete from pgq.dead_job as d
                where d.job_id = purge_queue.job_id
                    and d.queue_id + 0 = target_id
                returning
                    d.job_id,
                    d.queue_id,
                    d.unique_key,
                    case when d.stops_key then d.ordered_key end as ordered_key
            )

            select
                count(*),
                array_agg(row(p.job_id, p.queue_id, p.unique_key, p.ordered_key)::pgq._ended_job)
                    filter (where p.unique_key is not null or p.ordered_key is not null)
            into gone, freed
            from purged as p;
        else
            with doomed as materialized (
                select d.job_id
                from pgq.dead_job as d
                where d.queue_id = target_id
                    and d.died_at < coalesce(purge_queue.died_before, 'infinity')
                -- In no order that an index has, so that no plan walks all letters by their ids.
                order by d.job_id + 0
                for update
            ),

            purged as (
                delete from pgq.dead_job as d
                using doomed as g
                where d.job_id = g.job_id
                returning
                    d.job_id,
                    d.queue_id,
                    d.unique_key,
                    case when d.stops_key then d.ordered_key end as ordered_key
            )

            select
                count(*),
                array_agg(row(p.job_id, p.queue_id, p.unique_key, p.ordered_key)::pgq._ended_job)
                    filter (where p.unique_key is not null or p.ordered_key is not null)
            into gone, freed
            from purged as p;
        end if;
        removed := removed + gone;
        keyed := keyed || freed;

        exit when purge_queue.all_jobs is not true
            or not exists (
                select
                from pgq.job as j
                where j.queue_id = target_id
                    and j.job_id <= newest_id
            );
    end loop;

    -- When it waits for no job any more: an enqueue may wait for these keys.
    perform pgq._free_keys(keyed);
    return removed;
end
$$;

revoke all on function pgq.purge_queue from public;

comment on function pgq.purge_queue(text, boolean, bigint, boolean, timestamptz) is
'Removes unfinished jobs or dead letters of a queue, and returns how many.
dead_only => true: the dead letters. died_before: those that died before this time. job_id: this
one, if it is a dead letter; cancel_job takes back one that is not. all_jobs => true: every
unfinished job, leased and dead ones too; a worker that still has one of them gets false from ack.
Archived jobs stay, and so do idempotency keys: one that was given with a removed job still stands
for it.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 not exactly one of them is
given, 25001 not under READ COMMITTED.';

create function pgq._enqueue_keyed(
    queue text,
    payloads jsonb[],
    keys text[],
    headers jsonb[],
    delay interval,
    run_at timestamptz,
    priority integer,
    labels text[],
    idempotency_keys text[],
    unique_keys text[],
    max_attempts integer,
    bodies bytea[]
)
returns setof pgq.enqueue_result
language plpgsql
volatile
parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    scope bigint;
    span interval;
    notes pgq._key_notes;
    leaders integer[];
    added record;
    -- The jobs that were added, or are there by their unique key, in their order.
    made pgq.enqueue_result[];
    -- The answer for each place.
    ids bigint[];
    duplicates boolean[];
    rank integer := 0;
begin
    -- The transaction id first, then the window: see _note_keys.
    if pg_current_xact_id() is null then
        return;
    end if;

    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        -- An old snapshot may show another window, or a queue that is gone; then 40001.
        perform
        from pgq.queue as q
        where q.queue = _enqueue_keyed.queue
        for share;
    end if;

    -- Again when the queue was dropped and created again while this waited.
    loop
        select q.partition_id, q.idempotency_window
        into scope, span
        from pgq.queue as q
        where q.queue = _enqueue_keyed.queue;

        if scope is null then
            perform pgq._fail_unknown_queue(_enqueue_keyed.queue);
        end if;

        notes := pgq._note_keys(scope, span, _enqueue_keyed.idempotency_keys);

        exit when exists (select from pgq.queue as q where q.partition_id = scope);
    end loop;

    leaders := notes.leaders;

    select
        array_agg(g.payload order by g.place) as payloads,
        array_agg(g.key order by g.place) as keys,
        array_agg(g.header order by g.place) as headers,
        array_agg(g.label order by g.place) as labels,
        array_agg(g.unique_key order by g.place) as unique_keys,
        array_agg(g.body order by g.place) as bodies
    into added
    from (
        select
            generate_series(1, cardinality(leaders)) as place,
            unnest(leaders) as leader,
            unnest(_enqueue_keyed.payloads) as payload,
            unnest(_enqueue_keyed.keys) as key,
            unnest(_enqueue_keyed.headers) as header,
            unnest(_enqueue_keyed.labels) as label,
            unnest(_enqueue_keyed.unique_keys) as unique_key,
            unnest(_enqueue_keyed.bodies) as body
    ) as g
    where g.leader = g.place;

    if added.keys is not null then
        made := array(
            select e
            from pgq.enqueue_batch(
                queue => _enqueue_keyed.queue,
                payloads => case when _enqueue_keyed.bodies is null then added.payloads end,
                keys => added.keys,
                headers => added.headers,
                delay => _enqueue_keyed.delay,
                run_at => _enqueue_keyed.run_at,
                priority => _enqueue_keyed.priority,
                labels => added.labels,
                unique_keys => added.unique_keys,
                max_attempts => _enqueue_keyed.max_attempts,
                bodies => case when _enqueue_keyed.bodies is not null then added.bodies end
            ) as e
        );
    end if;

    for place in 1 .. cardinality(leaders) loop
        duplicates[place] := leaders[place] <> place;
        if leaders[place] = place then
            rank := rank + 1;
            ids[place] := made[rank].job_id;
            duplicates[place] := made[rank].duplicate;
        elsif leaders[place] > 0 then
            ids[place] := ids[leaders[place]];
        else
            ids[place] := notes.job_ids[-leaders[place]];
        end if;
    end loop;

    if rank > 0 then
        perform pgq._place_keys(
            notes.segments,
            scope,
            array_agg(g.idempotency_key),
            array_agg(g.job_id),
            null,
            null
        )
        from (
            select
                generate_series(1, cardinality(leaders)) as place,
                unnest(leaders) as leader,
                unnest(_enqueue_keyed.idempotency_keys) as idempotency_key,
                unnest(ids) as job_id
        ) as g
        where g.leader = g.place
            and g.idempotency_key is not null;

        -- Without a lock: it would be one for each call.
        if not exists (select from pgq.queue as q where q.partition_id = scope) then
            raise exception 'queue "%" was dropped while this call was at work',
                _enqueue_keyed.queue
                using errcode = 'MQ002';
        end if;
    end if;

    return query
    select unnest(ids), unnest(duplicates);
end
$$;

revoke all on function pgq._enqueue_keyed from public;

comment on function pgq._enqueue_keyed(
    text,
    jsonb[],
    text[],
    jsonb[],
    interval,
    timestamptz,
    integer,
    text[],
    text[],
    text[],
    integer,
    bytea[]
) is
'The part of enqueue and enqueue_batch that knows idempotency keys: adds the jobs that are new, and
returns the ids of all, in the order of the array.';

create function pgq._take_key(
    queue_id bigint,
    unique_key text,
    job_id bigint,
    waiting boolean
)
returns bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    holder_id bigint;
    several boolean;
begin
    loop
        -- It waits for whoever is taking the key, or giving it back. Above READ COMMITTED it raises
        -- 40001 where the snapshot does not show who has it.
        insert into pgq.unique_job (queue_id, unique_key, job_id)
        values (_take_key.queue_id, _take_key.unique_key, _take_key.job_id)
        on conflict do nothing;
        if found then
            return _take_key.job_id;
        end if;

        select u.job_id, count(*) over () > 1
        into holder_id, several
        from pgq.unique_job as u
        where u.queue_id = _take_key.queue_id
            and u.unique_key = _take_key.unique_key collate "C";
        -- It was given back in between.
        continue when not found;

        if several then
            -- Above READ COMMITTED this transaction may see who has given the key back since, and a
            -- job of its own; the lock then raises 40001.
            perform
            from pgq.unique_job as u
            where u.queue_id = _take_key.queue_id
                and u.unique_key = _take_key.unique_key collate "C"
            for key share;
        end if;

        exit when not _take_key.waiting
            or (
                select q.unique_until
                from pgq.queue as q
                where q.queue_id = _take_key.queue_id
            ) is distinct from 'claimed';

        -- Claims pass over what is locked. So whoever works on the job begins when this transaction
        -- has ended, and sees what it did.
        perform
        from pgq.job as j
        where j.job_id = holder_id
            and j.lease_token is null
        for key share;
        exit when found;

        -- It was claimed, or replaced by a new row, while this waited; or else it keeps the key
        -- from when the queue said otherwise. Both in one statement: one snapshot.
        exit when exists (
            select
            from pgq.unique_job as u
            where u.job_id = holder_id
                and not exists (
                    select
                    from pgq.job as j
                    where j.job_id = holder_id
                        and j.lease_token is null
                )
        );
    end loop;

    return holder_id;
end
$$;

revoke all on function pgq._take_key from public;

comment on function pgq._take_key(bigint, text, bigint, boolean) is
'Gives a job a unique key of its queue and returns its id, or that of the job that has the key.
waiting: that one is to wait until this transaction has ended, where claims give keys back.';

create function pgq._take_keys(
    queue_id bigint,
    unique_keys text[],
    job_ids bigint[],
    waiting boolean
)
returns bigint[]
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    holders bigint[] := _take_keys.job_ids;
    wish record;
begin
    -- One after the other, in the order of the keys: who waits for one has none behind it.
    for wish in
        select w.unique_key, w.job_id, w.place
        from unnest(_take_keys.unique_keys, _take_keys.job_ids)
            with ordinality as w (unique_key, job_id, place)
        where w.unique_key is not null
        order by w.unique_key collate "C", w.job_id
    loop
        holders[wish.place] := pgq._take_key(
            _take_keys.queue_id, wish.unique_key, wish.job_id, _take_keys.waiting
        );
    end loop;

    return holders;
end
$$;

revoke all on function pgq._take_keys from public;

comment on function pgq._take_keys(bigint, text[], bigint[], boolean) is
'What _take_key does for many jobs; those without a key are returned themselves.';

create function pgq._check_room(
    queue_id bigint,
    max_unfinished integer,
    new_jobs bigint,
    last_id bigint
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    begun_at timestamptz := clock_timestamp();
    name text := 'pgq.room_' || _check_room.queue_id;
    -- What this session counted last: by which max_unfinished, up to which id there is room, when,
    -- and how many microseconds it took. It is a hint: no transaction and no other session sees it.
    note numeric[] := string_to_array(
        nullif(current_setting(name, true), ''), ' '
    )::numeric[];
    age numeric;
    unfinished bigint;
begin
    -- No more can have come since than there were new ids. What was put back without an id is found
    -- a second later.
    age := extract(epoch from begun_at)::numeric * 1000000 - note[3];
    if note[1] = _check_room.max_unfinished
        and age >= 0
        and (
            age < 1000000 and _check_room.last_id <= note[2]
            -- To count many takes long: a twentieth of the time is for that, and as long as no
            -- count says no, there is room.
            or _check_room.max_unfinished > 10000 and age < note[4] * 20
        )
    then
        return;
    end if;

    -- Above the floors, below which there are dead rows and what has expired.
    select count(*)
    into unfinished
    from (
        select
        from (
            select g.floor_times, g.floor_ids
            from pgq.queue_floor as g
            where g.queue_id = _check_room.queue_id
                and g.label = ''
            order by g.seq desc
            limit 1
        ) as n
        cross join lateral unnest(n.floor_times, n.floor_ids) with ordinality
            as f (floor_time, floor_id, place)
        cross join lateral (
            select
            from pgq.job as k
            where k.queue_id = _check_room.queue_id
                and k.priority = f.place - 1
                and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
        ) as j
        limit _check_room.max_unfinished::bigint + 1
    ) as c;

    if unfinished + _check_room.new_jobs > _check_room.max_unfinished then
        raise exception 'queue "%" is full',
            (select q.queue from pgq.queue as q where q.queue_id = _check_room.queue_id)
            using errcode = 'MQ010',
                detail = format(
                    'New jobs: %s; unfinished: %s%s; max_unfinished: %s.',
                    _check_room.new_jobs,
                    case when unfinished > _check_room.max_unfinished then 'more than ' else '' end,
                    least(unfinished, _check_room.max_unfinished),
                    _check_room.max_unfinished
                ),
                hint = 'Try again when workers have finished some, or raise max_unfinished with '
                    'pgq.alter_queue.';
    end if;

    perform set_config(
        name,
        concat_ws(
            ' ',
            _check_room.max_unfinished,
            _check_room.last_id + _check_room.max_unfinished - unfinished - _check_room.new_jobs,
            round(extract(epoch from begun_at)::numeric * 1000000),
            round(extract(epoch from clock_timestamp() - begun_at)::numeric * 1000000)
        ),
        false
    );
end
$$;

revoke all on function pgq._check_room from public;

comment on function pgq._check_room(bigint, integer, bigint, bigint) is
'Raises MQ010 when a queue has too many unfinished jobs for so many new ones, of which last_id is
the highest. What other transactions are adding is not counted. Where max_unfinished is above 10000,
a count stands for 20 times as long as it took.';

create function pgq.enqueue(
    queue text,
    payload jsonb default null,
    key text default null,
    headers jsonb default null,
    delay interval default null,
    run_at timestamptz default null,
    priority integer default 0,
    label text default null,
    idempotency_key text default null,
    unique_key text default null,
    max_attempts integer default null,
    body bytea default null
)
returns setof pgq.enqueue_result
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    target_id bigint;
    store_id bigint;
    leaf integer;
    queue_delay interval;
    ttl interval;
    usual boolean;
    moment timestamptz;
    due_at timestamptz;
    holder_id bigint;
    turn_key text;
    turn_at timestamptz;
    free text[];
    added pgq.enqueue_result;
begin
    -- The transaction id first, then the segment and the clock: cleanup and the floor rely on it.
    -- They wait for every transaction that was running when a segment was sealed, or a floor
    -- proposed. Few conditions, since each of them takes time.
    if (enqueue.payload is null) = (enqueue.body is null)
        or enqueue.headers is not null
        or coalesce(enqueue.priority, 0) <> 0
        or enqueue.label is not null
        or enqueue.idempotency_key is not null
        or enqueue.unique_key is not null
        or enqueue.max_attempts is not null
        or current_setting('transaction_isolation') <> 'read committed'
        or pg_current_xact_id() is null
    then
        perform pgq._check_content(enqueue.payload, enqueue.headers, enqueue.body);
        perform pgq._check_count('priority', coalesce(enqueue.priority, 0), 0, 9);
        perform pgq._check_label(enqueue.label collate "C");
        perform pgq._check_unique_key(enqueue.unique_key collate "C");
        if enqueue.max_attempts is not null then
            perform pgq._check_count('max_attempts', enqueue.max_attempts, 1, 2147483647);
        end if;

        if enqueue.idempotency_key is not null then
            perform pgq._check_idempotency_keys(
                'idempotency_key', array[enqueue.idempotency_key collate "C"], 1
            );
            return query
            select k.job_id, k.duplicate
            from pgq._enqueue_keyed(
                enqueue.queue collate "C",
                case when enqueue.payload is not null then array[enqueue.payload] end,
                array[enqueue.key],
                array[enqueue.headers],
                enqueue.delay,
                enqueue.run_at,
                enqueue.priority,
                array[enqueue.label],
                array[enqueue.idempotency_key],
                array[enqueue.unique_key],
                enqueue.max_attempts,
                case when enqueue.body is not null then array[enqueue.body] end
            ) as k;
            return;
        end if;

        perform pg_current_xact_id();

        -- An old snapshot may name a segment that is gone; the lock then raises 40001.
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            perform
            from pgq.queue as q
            where q.queue = enqueue.queue collate "C"
            for share;
        end if;
    end if;

    -- Plain statements take less time than one that reads the queue and adds the job.
    select
        q.queue_id,
        q.partition_id,
        q.segment,
        q.delay,
        q.job_ttl,
        pgq._clock(),
        nextval('pgq.job_id'),
        false,
        enqueue.delay is null
        and enqueue.run_at is null
        and enqueue.unique_key is null
        and not q.notify
        and not q.ordered
        and q.max_unfinished is null
    into
        target_id,
        store_id,
        leaf,
        queue_delay,
        ttl,
        moment,
        added.job_id,
        added.duplicate,
        usual
    from pgq.queue as q
    where q.queue = enqueue.queue collate "C";

    if usual is not true then
        if target_id is null then
            perform pgq._fail_unknown_queue(enqueue.queue collate "C");
        end if;
        if enqueue.key is not null
            and (select q.ordered from pgq.queue as q where q.queue_id = target_id)
        then
            turn_key := enqueue.key;
            free := pgq._join_order(target_id, array[turn_key]);
            added.job_id := nextval('pgq.job_id');
            moment := pgq._clock();
        end if;
        if enqueue.delay is not null or enqueue.run_at is not null then
            due_at := pgq._due_at(
                enqueue.queue collate "C", moment, enqueue.delay, enqueue.run_at, ttl
            );
        end if;
        if enqueue.unique_key is not null then
            holder_id := pgq._take_key(
                target_id, enqueue.unique_key collate "C", added.job_id, true
            );
            if holder_id <> added.job_id then
                if turn_key is not null then
                    perform pgq._turns(target_id, null, free, null);
                end if;
                return query
                select holder_id, true;
                return;
            end if;
        end if;
        if turn_key is not null and cardinality(free) = 0 then
            turn_at := coalesce(due_at, moment + queue_delay);
            due_at := 'infinity';
        end if;
        -- The notification is heard when this transaction commits.
        perform
            case
                when q.max_unfinished is not null
                    then pgq._check_room(q.queue_id, q.max_unfinished, 1, added.job_id)
            end,
            case when q.notify then pg_notify('pgq_queue', q.queue) end
        from pgq.queue as q
        where q.queue_id = target_id
            and (q.notify or q.max_unfinished is not null);
    end if;

    insert into pgq.job (
        job_id,
        queue_id,
        partition_id,
        log_offset,
        expires_at,
        visible_at,
        segment,
        attempt,
        priority,
        label,
        unique_key,
        max_attempts,
        ordered_key,
        due_at
    )
    values (
        added.job_id,
        target_id,
        store_id,
        added.job_id,
        moment + ttl,
        coalesce(due_at, moment + queue_delay),
        leaf,
        0,
        coalesce(enqueue.priority, 0),
        enqueue.label,
        enqueue.unique_key,
        enqueue.max_attempts,
        turn_key,
        turn_at
    );

    if leaf = 0 then
        insert into pgq.message_0 (
            partition_id, log_offset, published_at, segment, key, headers, payload, body
        )
        values (
            store_id,
            added.job_id,
            moment,
            0,
            enqueue.key,
            enqueue.headers,
            enqueue.payload,
            enqueue.body
        );
    elsif leaf = 1 then
        insert into pgq.message_1 (
            partition_id, log_offset, published_at, segment, key, headers, payload, body
        )
        values (
            store_id,
            added.job_id,
            moment,
            1,
            enqueue.key,
            enqueue.headers,
            enqueue.payload,
            enqueue.body
        );
    elsif leaf <= 3 then
        if leaf <= 2 then
            insert into pgq.message_2 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            values (
                store_id,
                added.job_id,
                moment,
                2,
                enqueue.key,
                enqueue.headers,
                enqueue.payload,
                enqueue.body
            );
        else
            insert into pgq.message_3 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            values (
                store_id,
                added.job_id,
                moment,
                3,
                enqueue.key,
                enqueue.headers,
                enqueue.payload,
                enqueue.body
            );
        end if;
    elsif leaf <= 7 then
        if leaf <= 5 then
            if leaf <= 4 then
                insert into pgq.message_4 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                values (
                    store_id,
                    added.job_id,
                    moment,
                    4,
                    enqueue.key,
                    enqueue.headers,
                    enqueue.payload,
                    enqueue.body
                );
            else
                insert into pgq.message_5 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                values (
                    store_id,
                    added.job_id,
                    moment,
                    5,
                    enqueue.key,
                    enqueue.headers,
                    enqueue.payload,
                    enqueue.body
                );
            end if;
        else
            if leaf <= 6 then
                insert into pgq.message_6 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                values (
                    store_id,
                    added.job_id,
                    moment,
                    6,
                    enqueue.key,
                    enqueue.headers,
                    enqueue.payload,
                    enqueue.body
                );
            else
                insert into pgq.message_7 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                values (
                    store_id,
                    added.job_id,
                    moment,
                    7,
                    enqueue.key,
                    enqueue.headers,
                    enqueue.payload,
                    enqueue.body
                );
            end if;
        end if;
    elsif leaf <= 15 then
        if leaf <= 11 then
            if leaf <= 9 then
                if leaf <= 8 then
                    insert into pgq.message_8 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        store_id,
                        added.job_id,
                        moment,
                        8,
                        enqueue.key,
                        enqueue.headers,
                        enqueue.payload,
                        enqueue.body
                    );
                else
                    insert into pgq.message_9 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        store_id,
                        added.job_id,
                        moment,
                        9,
                        enqueue.key,
                        enqueue.headers,
                        enqueue.payload,
                        enqueue.body
                    );
                end if;
            else
                if leaf <= 10 then
                    insert into pgq.message_10 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        store_id,
                        added.job_id,
                        moment,
                        10,
                        enqueue.key,
                        enqueue.headers,
                        enqueue.payload,
                        enqueue.body
                    );
                else
                    insert into pgq.message_11 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        store_id,
                        added.job_id,
                        moment,
                        11,
                        enqueue.key,
                        enqueue.headers,
                        enqueue.payload,
                        enqueue.body
                    );
                end if;
            end if;
        else
            if leaf <= 13 then
                if leaf <= 12 then
                    insert into pgq.message_12 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        store_id,
                        added.job_id,
                        moment,
                        12,
                        enqueue.key,
                        enqueue.headers,
                        enqueue.payload,
                        enqueue.body
                    );
                else
                    insert into pgq.message_13 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        store_id,
                        added.job_id,
                        moment,
                        13,
                        enqueue.key,
                        enqueue.headers,
                        enqueue.payload,
                        enqueue.body
                    );
                end if;
            else
                if leaf <= 14 then
                    insert into pgq.message_14 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        store_id,
                        added.job_id,
                        moment,
                        14,
                        enqueue.key,
                        enqueue.headers,
                        enqueue.payload,
                        enqueue.body
                    );
                else
                    insert into pgq.message_15 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    values (
                        store_id,
                        added.job_id,
                        moment,
                        15,
                        enqueue.key,
                        enqueue.headers,
                        enqueue.payload,
                        enqueue.body
                    );
                end if;
            end if;
        end if;
    else
        execute format($leaf$
            insert into pgq.message_%1$s (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            values (
                $1,
                $2,
                $3,
                %1$s,
                $4,
                $5,
                $6,
                $7
            )
        $leaf$, leaf)
        using store_id, added.job_id, moment, enqueue.key, enqueue.headers, enqueue.payload, enqueue.body;
    end if;

    return next added;
end
$$;

revoke all on function pgq.enqueue from public;

comment on function pgq.enqueue(
    text, jsonb, text, jsonb, interval, timestamptz, integer, text, text, text, integer, bytea
) is
'Adds a job to a queue, and returns its id.
Pass payload (JSON) or body (raw bytes), not both. The job may be claimed once this transaction
has committed and its time has come: after delay, at run_at, or after the delay of the queue. Jobs
of a lower priority number (0 to 9) go first, then those that are due longer. label can be asked
for by claims; headers (a JSON object) and key travel with the job. An idempotency_key (1 to 255
characters) stands for the job that it was given with first, for the idempotency_window of the
queue, whatever becomes of that job: another call with it adds nothing, whatever its other arguments
are, and returns that job''s id as a duplicate. unique_key (1 to 255 characters): where the queue
has a job of this key, nothing is added either, and that job''s id is returned as a duplicate; how
long a job keeps others out is the queue''s unique_until. An enqueue of the same key in another
transaction is waited for. max_attempts: of this job, instead of what the queue says now or later.
In an ordered queue the jobs of one key, of at most 255 characters, are handed out one after the
other in the order of their commits, and an enqueue of a key waits for the transactions that have
enqueued one of it and are open.
Errors: MQ002 unknown queue, MQ010 the queue has as many unfinished jobs as its max_unfinished
allows, 22004 a required argument is null, or no content, 22023 bad argument, or the job would
expire before it is due, 40001 above READ COMMITTED when another transaction was first (try
again).';

create function pgq.enqueue_batch(
    queue text,
    payloads jsonb[] default null,
    keys text[] default null,
    headers jsonb[] default null,
    delay interval default null,
    run_at timestamptz default null,
    priority integer default 0,
    labels text[] default null,
    idempotency_keys text[] default null,
    unique_keys text[] default null,
    max_attempts integer default null,
    bodies bytea[] default null
)
returns setof pgq.enqueue_result
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    target_id bigint;
    store_id bigint;
    leaf integer;
    queue_delay interval;
    ttl interval;
    notify boolean;
    room integer;
    moment timestamptz;
    visible_at timestamptz;
    size integer;
    ids bigint[];
    holders bigint[];
    ordered boolean;
    free text[];
    turn_keys text[];
    turns boolean[];
begin
    size := pgq._check_batch(
        enqueue_batch.payloads,
        enqueue_batch.keys collate "C",
        enqueue_batch.headers,
        enqueue_batch.labels,
        enqueue_batch.bodies
    );
    perform pgq._check_count('priority', coalesce(enqueue_batch.priority, 0), 0, 9);
    if enqueue_batch.labels is not null then
        perform pgq._check_label(l.label)
        from unnest(enqueue_batch.labels) as l (label);
    end if;
    if enqueue_batch.idempotency_keys is not null
        or enqueue_batch.unique_keys is not null
        or enqueue_batch.max_attempts is not null
    then
        perform pgq._check_unique_keys(enqueue_batch.unique_keys collate "C", size);
        perform pgq._check_count(
            'max_attempts', coalesce(enqueue_batch.max_attempts, 1), 1, 2147483647
        );
        perform pgq._check_idempotency_keys(
            'idempotency_keys', enqueue_batch.idempotency_keys collate "C", size
        );
        if size > 0 and enqueue_batch.idempotency_keys is not null then
            return query
            select k.job_id, k.duplicate
            from pgq._enqueue_keyed(
                enqueue_batch.queue collate "C",
                enqueue_batch.payloads,
                enqueue_batch.keys,
                enqueue_batch.headers,
                enqueue_batch.delay,
                enqueue_batch.run_at,
                enqueue_batch.priority,
                enqueue_batch.labels,
                enqueue_batch.idempotency_keys,
                enqueue_batch.unique_keys,
                enqueue_batch.max_attempts,
                enqueue_batch.bodies
            ) as k;
            return;
        end if;
    end if;

    -- The transaction id first, then the segment and the clock: cleanup and the floor rely on it.
    -- They wait for every transaction that was running when a segment was sealed, or a floor
    -- proposed.
    if pg_current_xact_id() is null then
        return;
    end if;

    select
        q.queue_id,
        q.partition_id,
        q.segment,
        q.delay,
        q.job_ttl,
        q.notify,
        q.ordered,
        q.max_unfinished
    into target_id, store_id, leaf, queue_delay, ttl, notify, ordered, room
    from pgq.queue as q
    where q.queue = enqueue_batch.queue collate "C";

    if target_id is null then
        perform pgq._fail_unknown_queue(enqueue_batch.queue collate "C");
    end if;

    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        -- An old snapshot may name a segment that is gone; the lock then raises 40001.
        perform
        from pgq.queue as q
        where q.queue = enqueue_batch.queue collate "C"
        for share;
    end if;

    -- Before the ids are taken.
    if ordered then
        free := pgq._join_order(target_id, enqueue_batch.keys);
    end if;

    moment := pgq._clock();
    if enqueue_batch.delay is null and enqueue_batch.run_at is null then
        visible_at := moment + queue_delay;
    else
        visible_at := pgq._due_at(
            enqueue_batch.queue collate "C", moment, enqueue_batch.delay, enqueue_batch.run_at, ttl
        );
    end if;

    if size = 0 then
        return;
    end if;

    ids := array(
        select nextval('pgq.job_id')
        from generate_series(1, size)
    );

    if enqueue_batch.unique_keys is not null then
        holders := pgq._take_keys(
            target_id, enqueue_batch.unique_keys collate "C", ids, true
        );

        return query
        select h.holder_id, h.holder_id <> h.job_id
        from unnest(holders, ids) with ordinality as h (holder_id, job_id, place)
        order by h.place;

        -- From here on, what is new.
        if holders <> ids then
            select
                coalesce(array_agg(b.job_id order by b.place), '{}'),
                array_agg(b.key order by b.place),
                array_agg(b.header order by b.place),
                array_agg(b.payload order by b.place),
                array_agg(b.label order by b.place),
                array_agg(b.unique_key order by b.place),
                array_agg(b.body order by b.place)
            into
                ids,
                enqueue_batch.keys,
                enqueue_batch.headers,
                enqueue_batch.payloads,
                enqueue_batch.labels,
                enqueue_batch.unique_keys,
                enqueue_batch.bodies
            from unnest(
                ids,
                holders,
                enqueue_batch.keys,
                enqueue_batch.headers,
                enqueue_batch.payloads,
                enqueue_batch.labels,
                enqueue_batch.unique_keys,
                enqueue_batch.bodies
            ) with ordinality
                as b (job_id, holder_id, key, header, payload, label, unique_key, body, place)
            where b.job_id = b.holder_id;
            notify := notify and cardinality(ids) > 0;
        end if;
    end if;

    if room is not null and cardinality(ids) > 0 then
        perform pgq._check_room(target_id, room, cardinality(ids), ids[cardinality(ids)]);
    end if;
    if ordered then
        turn_keys := enqueue_batch.keys;
        turns := pgq._turns(target_id, turn_keys, free, null);
    end if;

    if leaf = 0 then
        insert into pgq.message_0 (
            partition_id, log_offset, published_at, segment, key, headers, payload, body
        )
        select store_id, b.job_id, moment, 0, b.key, b.header, b.payload, b.body
        from (
            select
                unnest(ids) as job_id,
                unnest(enqueue_batch.keys) as key,
                unnest(enqueue_batch.headers) as header,
                unnest(enqueue_batch.payloads) as payload,
                unnest(enqueue_batch.bodies) as body
        ) as b;
    elsif leaf = 1 then
        insert into pgq.message_1 (
            partition_id, log_offset, published_at, segment, key, headers, payload, body
        )
        select store_id, b.job_id, moment, 1, b.key, b.header, b.payload, b.body
        from (
            select
                unnest(ids) as job_id,
                unnest(enqueue_batch.keys) as key,
                unnest(enqueue_batch.headers) as header,
                unnest(enqueue_batch.payloads) as payload,
                unnest(enqueue_batch.bodies) as body
        ) as b;
    elsif leaf <= 3 then
        if leaf <= 2 then
            insert into pgq.message_2 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select store_id, b.job_id, moment, 2, b.key, b.header, b.payload, b.body
            from (
                select
                    unnest(ids) as job_id,
                    unnest(enqueue_batch.keys) as key,
                    unnest(enqueue_batch.headers) as header,
                    unnest(enqueue_batch.payloads) as payload,
                    unnest(enqueue_batch.bodies) as body
            ) as b;
        else
            insert into pgq.message_3 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select store_id, b.job_id, moment, 3, b.key, b.header, b.payload, b.body
            from (
                select
                    unnest(ids) as job_id,
                    unnest(enqueue_batch.keys) as key,
                    unnest(enqueue_batch.headers) as header,
                    unnest(enqueue_batch.payloads) as payload,
                    unnest(enqueue_batch.bodies) as body
            ) as b;
        end if;
    elsif leaf <= 7 then
        if leaf <= 5 then
            if leaf <= 4 then
                insert into pgq.message_4 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select store_id, b.job_id, moment, 4, b.key, b.header, b.payload, b.body
                from (
                    select
                        unnest(ids) as job_id,
                        unnest(enqueue_batch.keys) as key,
                        unnest(enqueue_batch.headers) as header,
                        unnest(enqueue_batch.payloads) as payload,
                        unnest(enqueue_batch.bodies) as body
                ) as b;
            else
                insert into pgq.message_5 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select store_id, b.job_id, moment, 5, b.key, b.header, b.payload, b.body
                from (
                    select
                        unnest(ids) as job_id,
                        unnest(enqueue_batch.keys) as key,
                        unnest(enqueue_batch.headers) as header,
                        unnest(enqueue_batch.payloads) as payload,
                        unnest(enqueue_batch.bodies) as body
                ) as b;
            end if;
        else
            if leaf <= 6 then
                insert into pgq.message_6 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select store_id, b.job_id, moment, 6, b.key, b.header, b.payload, b.body
                from (
                    select
                        unnest(ids) as job_id,
                        unnest(enqueue_batch.keys) as key,
                        unnest(enqueue_batch.headers) as header,
                        unnest(enqueue_batch.payloads) as payload,
                        unnest(enqueue_batch.bodies) as body
                ) as b;
            else
                insert into pgq.message_7 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select store_id, b.job_id, moment, 7, b.key, b.header, b.payload, b.body
                from (
                    select
                        unnest(ids) as job_id,
                        unnest(enqueue_batch.keys) as key,
                        unnest(enqueue_batch.headers) as header,
                        unnest(enqueue_batch.payloads) as payload,
                        unnest(enqueue_batch.bodies) as body
                ) as b;
            end if;
        end if;
    elsif leaf <= 15 then
        if leaf <= 11 then
            if leaf <= 9 then
                if leaf <= 8 then
                    insert into pgq.message_8 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select store_id, b.job_id, moment, 8, b.key, b.header, b.payload, b.body
                    from (
                        select
                            unnest(ids) as job_id,
                            unnest(enqueue_batch.keys) as key,
                            unnest(enqueue_batch.headers) as header,
                            unnest(enqueue_batch.payloads) as payload,
                            unnest(enqueue_batch.bodies) as body
                    ) as b;
                else
                    insert into pgq.message_9 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select store_id, b.job_id, moment, 9, b.key, b.header, b.payload, b.body
                    from (
                        select
                            unnest(ids) as job_id,
                            unnest(enqueue_batch.keys) as key,
                            unnest(enqueue_batch.headers) as header,
                            unnest(enqueue_batch.payloads) as payload,
                            unnest(enqueue_batch.bodies) as body
                    ) as b;
                end if;
            else
                if leaf <= 10 then
                    insert into pgq.message_10 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select store_id, b.job_id, moment, 10, b.key, b.header, b.payload, b.body
                    from (
                        select
                            unnest(ids) as job_id,
                            unnest(enqueue_batch.keys) as key,
                            unnest(enqueue_batch.headers) as header,
                            unnest(enqueue_batch.payloads) as payload,
                            unnest(enqueue_batch.bodies) as body
                    ) as b;
                else
                    insert into pgq.message_11 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select store_id, b.job_id, moment, 11, b.key, b.header, b.payload, b.body
                    from (
                        select
                            unnest(ids) as job_id,
                            unnest(enqueue_batch.keys) as key,
                            unnest(enqueue_batch.headers) as header,
                            unnest(enqueue_batch.payloads) as payload,
                            unnest(enqueue_batch.bodies) as body
                    ) as b;
                end if;
            end if;
        else
            if leaf <= 13 then
                if leaf <= 12 then
                    insert into pgq.message_12 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select store_id, b.job_id, moment, 12, b.key, b.header, b.payload, b.body
                    from (
                        select
                            unnest(ids) as job_id,
                            unnest(enqueue_batch.keys) as key,
                            unnest(enqueue_batch.headers) as header,
                            unnest(enqueue_batch.payloads) as payload,
                            unnest(enqueue_batch.bodies) as body
                    ) as b;
                else
                    insert into pgq.message_13 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select store_id, b.job_id, moment, 13, b.key, b.header, b.payload, b.body
                    from (
                        select
                            unnest(ids) as job_id,
                            unnest(enqueue_batch.keys) as key,
                            unnest(enqueue_batch.headers) as header,
                            unnest(enqueue_batch.payloads) as payload,
                            unnest(enqueue_batch.bodies) as body
                    ) as b;
                end if;
            else
                if leaf <= 14 then
                    insert into pgq.message_14 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select store_id, b.job_id, moment, 14, b.key, b.header, b.payload, b.body
                    from (
                        select
                            unnest(ids) as job_id,
                            unnest(enqueue_batch.keys) as key,
                            unnest(enqueue_batch.headers) as header,
                            unnest(enqueue_batch.payloads) as payload,
                            unnest(enqueue_batch.bodies) as body
                    ) as b;
                else
                    insert into pgq.message_15 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select store_id, b.job_id, moment, 15, b.key, b.header, b.payload, b.body
                    from (
                        select
                            unnest(ids) as job_id,
                            unnest(enqueue_batch.keys) as key,
                            unnest(enqueue_batch.headers) as header,
                            unnest(enqueue_batch.payloads) as payload,
                            unnest(enqueue_batch.bodies) as body
                    ) as b;
                end if;
            end if;
        end if;
    else
        execute format($leaf$
            insert into pgq.message_%1$s (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select $1, b.job_id, $2, %1$s, b.key, b.header, b.payload, b.body
            from (
                select
                    unnest($3) as job_id,
                    unnest($4) as key,
                    unnest($5) as header,
                    unnest($6) as payload,
                    unnest($7) as body
            ) as b
        $leaf$, leaf)
        using store_id, moment, ids, enqueue_batch.keys, enqueue_batch.headers, enqueue_batch.payloads, enqueue_batch.bodies;
    end if;

    insert into pgq.job (
        job_id,
        queue_id,
        partition_id,
        log_offset,
        expires_at,
        visible_at,
        segment,
        attempt,
        priority,
        label,
        unique_key,
        max_attempts,
        ordered_key,
        due_at
    )
    select
        b.job_id,
        target_id,
        store_id,
        b.job_id,
        moment + ttl,
        case when b.waits then 'infinity' else visible_at end,
        leaf,
        0,
        coalesce(enqueue_batch.priority, 0),
        b.label,
        b.unique_key,
        enqueue_batch.max_attempts,
        b.turn_key,
        case when b.waits then visible_at end
    from (
        select
            unnest(ids) as job_id,
            unnest(enqueue_batch.labels) as label,
            unnest(enqueue_batch.unique_keys) as unique_key,
            unnest(turn_keys) as turn_key,
            unnest(turns) as waits
    ) as b;

    return query
    select unnest(ids), false
    where holders is null;

    if notify then
        perform pg_notify('pgq_queue', enqueue_batch.queue);
    end if;
end
$$;

revoke all on function pgq.enqueue_batch from public;

comment on function pgq.enqueue_batch(
    text,
    jsonb[],
    text[],
    jsonb[],
    interval,
    timestamptz,
    integer,
    text[],
    text[],
    text[],
    integer,
    bytea[]
) is
'Adds jobs to a queue, all or none, and returns their ids, in the order of the array.
Pass payloads (JSON) or bodies (raw bytes), not both; keys, headers, labels, idempotency_keys and
unique_keys are optional and of the same length; delay, run_at, priority and max_attempts are those
of all. A key may be null: none. What repeats an idempotency key, or the unique key of an unfinished
job (see enqueue), be it of a job further in front in the array, is not added, and its row has the
id of the job that it repeats. An empty array adds nothing. In an ordered queue jobs of one key
follow each other in the order of the array.
Errors: MQ002 unknown queue, 22004 a required argument is null, no content, or a null in it, 22023
bad argument, arrays of other lengths, or the jobs would expire before they are due, 40001 above
READ COMMITTED when another transaction was first (try again).';

create function pgq._bury(job_ids bigint[], uncounted integer, lost boolean, error text)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    ran_out constant text := 'the lease of the last attempt ran out';
    freed pgq._ended_job[];
begin
    with gone as (
        delete from pgq.job as j
        where j.job_id = any(_bury.job_ids)
        returning j.*
    ),

    buried as (
        insert into pgq.dead_job (
            job_id,
            queue_id,
            partition_id,
            log_offset,
            segment,
            priority,
            attempt,
            died_at,
            label,
            last_error,
            unique_key,
            max_attempts,
            ordered_key,
            stops_key
        )
        select
            g.job_id,
            g.queue_id,
            g.partition_id,
            g.log_offset,
            g.segment,
            g.priority,
            g.attempt - _bury.uncounted,
            pgq._clock(),
            g.label,
            case
                when _bury.error is not null then _bury.error
                -- A nack has said why.
                when not coalesce(_bury.lost, g.lease_token is not null) then g.last_error
                -- It was redriven after it had ended in the same way.
                when right(g.last_error, length(ran_out)) = ran_out then g.last_error
                else concat_ws(E'\n', g.last_error, ran_out)
            end,
            g.unique_key,
            g.max_attempts,
            g.ordered_key,
            g.ordered_key is not null
            and coalesce(
                (
                    select q.after_dead_letter = 'stop'
                    from pgq.queue as q
                    where q.queue_id = g.queue_id
                ),
                false
            )
        from gone as g
        returning job_id, queue_id, unique_key, ordered_key, stops_key
    )

    select
        array_agg(
            row(
                b.job_id,
                b.queue_id,
                case
                    when (
                        select q.unique_until
                        from pgq.queue as q
                        where q.queue_id = b.queue_id
                    ) is distinct from 'removed'
                        then b.unique_key
                end,
                case when not b.stops_key then b.ordered_key end
            )::pgq._ended_job
        )
    into freed
    from buried as b
    where b.unique_key is not null
        or b.ordered_key is not null;

    if freed is not null then
        perform pgq._free_keys(freed);
    end if;
end
$$;

revoke all on function pgq._bury from public;

comment on function pgq._bury(bigint[], integer, boolean, text) is
'Moves jobs, whose rows the caller has locked, to the dead ones. uncounted: deliveries that came to
nothing; lost: whether a lease ran out, which is added to the error of the last nack; null: where
the row has a lease token; error: what the worker says instead; null: nothing.';

create or replace function pgq._bury_exhausted(job_ids bigint[], max_attempts integer, moment timestamptz)
returns bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    exhausted bigint[];
begin
    exhausted := array(
        select j.job_id
        from pgq.job as j
        where j.job_id = any(_bury_exhausted.job_ids)
            and j.attempt >= coalesce(j.max_attempts, _bury_exhausted.max_attempts)
            and j.visible_at <= _bury_exhausted.moment
        for update skip locked
    );

    if cardinality(exhausted) > 0 then
        perform pgq._bury(exhausted, 0, null, null);
    end if;
    return cardinality(exhausted);
end
$$;

comment on function pgq._bury_exhausted(bigint[], integer, timestamptz) is
'Of these jobs, moves those that lost their worker on their last attempt to the dead ones, and
returns how many. max_attempts: of those that have none of their own.';

create or replace function pgq._bury_front(
    queue_id bigint,
    max_attempts integer,
    floor_times timestamptz[],
    floor_ids bigint[],
    moment timestamptz,
    max_jobs integer
)
returns bigint
language sql
volatile
parallel unsafe
as $$
select pgq._bury_exhausted(
    array(
        select k.job_id
        from unnest(_bury_front.floor_times, _bury_front.floor_ids) with ordinality
            as f (floor_time, floor_id, place)
        cross join lateral (
            select j.job_id, j.attempt, j.max_attempts
            from pgq.job as j
            where j.queue_id = _bury_front.queue_id
                and j.priority = f.place - 1
                and (j.visible_at, j.job_id) >= (f.floor_time, f.floor_id)
                and j.visible_at <= _bury_front.moment
            order by j.visible_at, j.job_id
            limit 1000
        ) as k
        where k.attempt >= coalesce(k.max_attempts, _bury_front.max_attempts)
        limit _bury_front.max_jobs
    ),
    _bury_front.max_attempts,
    _bury_front.moment
)
$$;

create function pgq._free_claimed(job_ids bigint[])
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    delete from pgq.unique_job as u
    where u.job_id = any(_free_claimed.job_ids)
        and (
            select q.unique_until
            from pgq.queue as q
            where q.queue_id = u.queue_id
        ) = 'claimed';
end
$$;

revoke all on function pgq._free_claimed from public;

comment on function pgq._free_claimed(bigint[]) is
'Takes their unique keys from jobs that are being claimed, where their queue says unique_until
claimed.';

create function pgq._expire_front(
    queue_id bigint,
    floor_times timestamptz[],
    floor_ids bigint[],
    moment timestamptz
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    expired_ids bigint[];
begin
    expired_ids := array(
        select k.job_id
        from unnest(_expire_front.floor_times, _expire_front.floor_ids) with ordinality
            as f (floor_time, floor_id, place)
        cross join lateral (
            select j.job_id, j.expires_at
            from pgq.job as j
            where j.queue_id = _expire_front.queue_id
                and j.priority = f.place - 1
                and (j.visible_at, j.job_id) >= (f.floor_time, f.floor_id)
                and j.visible_at <= _expire_front.moment
            order by j.visible_at, j.job_id
            limit 100
        ) as k
        where k.expires_at <= _expire_front.moment
    );

    if cardinality(expired_ids) > 0 then
        perform
        from pgq._expire_jobs(expired_ids, _expire_front.moment);
    end if;
end
$$;

revoke all on function pgq._expire_front from public;

comment on function pgq._expire_front(bigint, timestamptz[], bigint[], timestamptz) is
'Removes expired jobs of an ordered queue that stand before all others: they hold up their keys.';

create or replace function pgq._raise_floor(queue_id bigint, moment timestamptz)
returns void
language plpgsql
volatile
parallel unsafe
set jit = off
as $$
#variable_conflict use_column
declare
    state pgq.queue_floor;
    snapshot pg_snapshot;
    -- When this transaction began: whoever had read the clock by then had an id, and a lower one
    -- than this transaction. An id of the snapshot is not enough: running ones may have higher ids
    -- than the latest that has ended. Never later than this moment, should the clock have been set
    -- back since.
    begun_at timestamptz := least(
        _raise_floor.moment, _raise_floor.moment - (clock_timestamp() - now())
    );
begin
    -- When another claim is raising it at this moment, this one leaves it alone.
    if not pgq._lock_floor(_raise_floor.queue_id) then
        return;
    end if;

    -- A new statement: its snapshot is younger than the lock.
    select f.*
    into state
    from pgq.queue_floor as f
    where f.queue_id = _raise_floor.queue_id
        and f.label = ''
    order by f.seq desc
    limit 1;
    snapshot := pg_current_snapshot();

    if state.recorded_at > _raise_floor.moment then
        if state.recorded_at <= pgq._clock() then
            -- A claim that began later was here first.
            return;
        end if;
        -- The clock was set back. Start again: jobs may have been written below the floors.
        state.epoch := state.epoch + 1;
        state.floor_times := array_fill('-infinity'::timestamptz, array[10]);
        state.floor_ids := array_fill(0::bigint, array[10]);
        state.safe_at := '-infinity';
        state.note_floor := case when state.note_floor is not null then '-infinity' end;
        state.candidate_at := begun_at;
        state.candidate_xid := pg_current_xact_id();
    end if;

    -- Whoever writes a visible_at has its transaction id first and reads the clock then. So once
    -- every transaction below candidate_xid has ended, nothing is written below candidate_at any
    -- more: the others have read a later clock. The id of a row that another transaction wrote is
    -- below the snapshot's highest one, unless it is from before a restore into another cluster:
    -- then all its contemporaries are gone.
    if state.candidate_xid <= pg_snapshot_xmin(snapshot)
        or (
            state.candidate_xid >= pg_snapshot_xmax(snapshot)
            and state.candidate_xid <> pg_current_xact_id()
        )
    then
        state.safe_at := greatest(state.safe_at, state.candidate_at);
        state.candidate_at := begun_at;
        state.candidate_xid := pg_current_xact_id();
    end if;

    -- The floor rises to the first job that can still be claimed, or else to where it is safe;
    -- not looking further, for there stand the leases of finished jobs.
    select
        array_agg(
            case
                when f.floor_time >= state.safe_at then f.floor_time
                else coalesce(least(j.visible_at, r.visible_at), state.safe_at)
            end
            order by f.place
        ),
        array_agg(
            case
                when f.floor_time >= state.safe_at then f.floor_id
                when r.visible_at < j.visible_at then 0
                else coalesce(j.job_id, 0)
            end
            order by f.place
        )
    into state.floor_times, state.floor_ids
    from unnest(state.floor_times, state.floor_ids)
        with ordinality as f (floor_time, floor_id, place)
    left join lateral (
        select k.visible_at, k.job_id
        from pgq.job as k
        where k.queue_id = _raise_floor.queue_id
            and k.priority = f.place - 1
            and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
            and k.visible_at < state.safe_at
            and (k.expires_at is null or k.expires_at > _raise_floor.moment)
        order by k.visible_at, k.job_id
        limit 1
    ) as j on true
    -- The jobs of a run will stand where the run does, with ids that are higher than all so far.
    left join lateral (
        select k.visible_at
        from pgq.job_run as k
        where f.place = 1
            and k.queue_id = _raise_floor.queue_id
            and k.visible_at >= f.floor_time
            and k.visible_at < state.safe_at
            and (k.expires_at is null or k.expires_at > _raise_floor.moment)
        order by k.visible_at, k.run_id
        limit 1
    ) as r on true;

    if state.note_floor < state.safe_at then
        -- The notes of an ordered queue, in the same way.
        state.note_floor := coalesce(
            (
                select n.look_at
                from pgq.ordered_note as n
                where n.queue_id = _raise_floor.queue_id
                    and n.look_at >= state.note_floor
                    and n.look_at < state.safe_at
                order by n.look_at
                limit 1
            ),
            state.safe_at
        );
    end if;

    insert into pgq.queue_floor (
        queue_id,
        label,
        seq,
        epoch,
        floor_times,
        floor_ids,
        recorded_at,
        safe_at,
        candidate_at,
        candidate_xid,
        note_floor
    )
    values (
        _raise_floor.queue_id,
        '',
        state.seq + 1,
        state.epoch,
        state.floor_times,
        state.floor_ids,
        _raise_floor.moment,
        state.safe_at,
        state.candidate_at,
        state.candidate_xid,
        state.note_floor
    );

    -- One row goes for each that comes, found by its number, so no dead rows are walked.
    delete from pgq.queue_floor as f
    where f.queue_id = _raise_floor.queue_id
        and f.label = ''
        and f.seq = state.seq - 63;
end
$$;

create or replace function pgq._raise_label_floor(queue_id bigint, label text, moment timestamptz)
returns void
language plpgsql
volatile
parallel unsafe
set jit = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    common pgq.queue_floor;
    state pgq.queue_floor;
    place text collate "C" := '=' || _raise_label_floor.label;
    times timestamptz[];
    ids bigint[];
begin
    if not pgq._lock_floor(_raise_label_floor.queue_id) then
        return;
    end if;

    -- A new statement: its snapshot is younger than the lock.
    select f.*
    into common
    from pgq.queue_floor as f
    where f.queue_id = _raise_label_floor.queue_id
        and f.label = ''
    order by f.seq desc
    limit 1;

    -- First those of all claims: perhaps nobody claims without a label. It is there that a clock
    -- which was set back is noticed.
    if common.recorded_at < _raise_label_floor.moment - interval '20 milliseconds'
        or common.recorded_at > pgq._clock()
    then
        perform pgq._raise_floor(_raise_label_floor.queue_id, _raise_label_floor.moment);
        select f.*
        into common
        from pgq.queue_floor as f
        where f.queue_id = _raise_label_floor.queue_id
            and f.label = ''
        order by f.seq desc
        limit 1;
    end if;

    select f.*
    into state
    from pgq.queue_floor as f
    where f.queue_id = _raise_label_floor.queue_id
        and f.label = place
    order by f.seq desc
    limit 1;

    if common.recorded_at > _raise_label_floor.moment
        or (state.recorded_at > _raise_label_floor.moment and state.epoch = common.epoch)
    then
        -- A claim that began later was here first.
        return;
    end if;

    -- What holds for all jobs holds for those of a label. Its own floors never stand above the
    -- safe_at of all: where the clock was set back below them, that has begun another epoch.
    if state.epoch = common.epoch then
        for number in 1 .. 10 loop
            if (common.floor_times[number], common.floor_ids[number])
                > (state.floor_times[number], state.floor_ids[number])
            then
                state.floor_times[number] := common.floor_times[number];
                state.floor_ids[number] := common.floor_ids[number];
            end if;
        end loop;
    else
        state.floor_times := common.floor_times;
        state.floor_ids := common.floor_ids;
    end if;

    -- They rise as those of all claims do: to the label's first job that can still be delivered, or
    -- else to where it is proved safe for all.
    select
        array_agg(
            case
                when f.floor_time >= common.safe_at then f.floor_time
                else coalesce(j.visible_at, common.safe_at)
            end
            order by f.place
        ),
        array_agg(
            case
                when f.floor_time >= common.safe_at then f.floor_id
                else coalesce(j.job_id, 0)
            end
            order by f.place
        )
    into times, ids
    from unnest(state.floor_times, state.floor_ids)
        with ordinality as f (floor_time, floor_id, place)
    left join lateral (
        select k.visible_at, k.job_id
        from pgq.job as k
        where -k.queue_id = -_raise_label_floor.queue_id
            and k.label = _raise_label_floor.label collate "C"
            and k.priority = f.place - 1
            and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
            and k.visible_at < common.safe_at
            and (k.expires_at is null or k.expires_at > _raise_label_floor.moment)
        order by k.visible_at, k.job_id
        limit 1
    ) as j on true;

    -- Only where a job of other claims keeps the floors of all low does a label need its own.
    if state.epoch is distinct from common.epoch
        and times = common.floor_times
        and ids = common.floor_ids
    then
        return;
    end if;

    insert into pgq.queue_floor (
        queue_id,
        label,
        seq,
        epoch,
        floor_times,
        floor_ids,
        recorded_at,
        safe_at,
        candidate_at,
        candidate_xid
    )
    values (
        _raise_label_floor.queue_id,
        place,
        coalesce(state.seq, 0) + 1,
        common.epoch,
        times,
        ids,
        _raise_label_floor.moment,
        common.safe_at,
        common.candidate_at,
        common.candidate_xid
    );

    -- Labels may be many: each has one row. Found by its number, so no dead rows are walked.
    delete from pgq.queue_floor as f
    where f.queue_id = _raise_label_floor.queue_id
        and f.label = place
        and f.seq = state.seq;
end
$$;

create function pgq._claims_so_far(queue_id bigint)
returns pgq.claim_count
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    state pgq.claim_count;
    limits pgq.queue;
    cost bigint;
    moment timestamptz;
begin
    select c.*
    into state
    from pgq.claim_count as c
    where c.queue_id = _claims_so_far.queue_id
    order by c.seq desc
    limit 1;

    if state.queue_id is null then
        state.queue_id := _claims_so_far.queue_id;
        state.seq := 0;
        state.first_seq := 1;
        state.leased := 0;
    end if;

    select q.*
    into limits
    from pgq.queue as q
    where q.queue_id = _claims_so_far.queue_id;

    -- Whole numbers, so nothing is lost however often it is added.
    if limits.rate_limit is not null then
        moment := pgq._clock();
        if state.refilled_at > moment then
            -- The clock was set back: it goes on from there, also where this claim gets nothing.
            state.refilled_at := moment;
            perform pgq._write_claims(state, '{}', false);
            state.seq := state.seq + 1;
        end if;
        cost := round(extract(epoch from limits.rate_interval)::numeric * 1000000);
        state.credit := least(
            coalesce(
                trunc(state.credit * cost / state.job_cost)
                + round(extract(epoch from moment - state.refilled_at)::numeric * 1000000)
                * limits.rate_limit,
                limits.rate_burst::numeric * cost
            ),
            limits.rate_burst::numeric * cost
        );
        state.job_cost := cost;
        state.refilled_at := moment;
    end if;

    return state;
end
$$;

revoke all on function pgq._claims_so_far from public;

comment on function pgq._claims_so_far(bigint) is
'What a queue has handed out, and what its rate_limit allows now. The caller has its claim_lock.';

create function pgq._write_claims(state pgq.claim_count, job_ids bigint[], anew boolean)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    first_seq bigint := case
        when _write_claims.anew then _write_claims.state.seq + 1
        else _write_claims.state.first_seq
    end;
begin
    -- Above READ COMMITTED it raises 40001 where another claim was first.
    insert into pgq.claim_count (
        queue_id,
        seq,
        first_seq,
        leased,
        job_ids,
        counted_xid,
        horizon,
        job_cost,
        credit,
        refilled_at
    )
    values (
        _write_claims.state.queue_id,
        _write_claims.state.seq + 1,
        first_seq,
        cardinality(_write_claims.job_ids)
        + case when _write_claims.anew then 0 else _write_claims.state.leased end,
        _write_claims.job_ids,
        _write_claims.state.counted_xid,
        _write_claims.state.horizon,
        _write_claims.state.job_cost,
        _write_claims.state.credit,
        _write_claims.state.refilled_at
    )
    on conflict do nothing;

    -- Those that do not count any more, found by their numbers, so no dead rows are walked.
    if _write_claims.anew then
        delete from pgq.claim_count as c
        where c.queue_id = _write_claims.state.queue_id
            and c.seq between _write_claims.state.first_seq and _write_claims.state.seq;
    end if;
end
$$;

revoke all on function pgq._write_claims from public;

comment on function pgq._write_claims(pgq.claim_count, bigint[], boolean) is
'Adds to the journal of a queue that limits its claims, whose claim_lock the caller has. anew: these
are all jobs that may be leased; otherwise they come to those before.';

create function pgq._allowed_claims(queue_id bigint, wanted integer)
returns integer
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    allowed integer := _allowed_claims.wanted;
    state pgq.claim_count;
    switched_xid xid8;
    most integer;
    limited boolean;
    anew boolean;
    handed_out bigint[] := '{}';
    leased_ids bigint[];
    late_ids bigint[];
    moment timestamptz;
begin
    -- Claims of such a queue are one after the other. Only they hold this lock, to the end of their
    -- transactions. Whoever has it waits for nothing more in its call.
    select l.counted_xid
    into switched_xid
    from pgq.claim_lock as l
    where l.queue_id = _allowed_claims.queue_id
    for update;

    -- New statements, whose snapshots are younger than the lock.
    select q.max_leased, q.rate_limit is not null
    into most, limited
    from pgq.queue as q
    where q.queue_id = _allowed_claims.queue_id;
    state := pgq._claims_so_far(_allowed_claims.queue_id);

    if limited then
        allowed := least(allowed, trunc(state.credit / state.job_cost));
    end if;
    if most is null or allowed = 0 then
        return allowed;
    end if;

    moment := pgq._clock();
    anew := state.counted_xid is distinct from switched_xid;
    if anew
        or state.horizon <> pg_current_xact_id()
        and (
            state.horizon <= pg_snapshot_xmin(pg_current_snapshot())
            or state.horizon >= pg_snapshot_xmax(pg_current_snapshot())
        )
    then
        -- max_leased was switched on: all that is leased counts. And once more, when all have ended
        -- that were under way then and may not have known it. An id that is too high is from before
        -- a restore into another cluster.
        handed_out := array(
            select k.job_id
            from generate_series(0, 9) as p (priority)
            cross join lateral (
                select j.job_id
                from pgq.job as j
                where j.queue_id = _allowed_claims.queue_id
                    and j.priority = p.priority
                    and j.visible_at > moment
                    and j.lease_token is not null
            ) as k
        );
        state.horizon := case when anew then pg_current_xact_id() end;
        state.counted_xid := switched_xid;
        anew := true;
    end if;

    if anew or state.leased + allowed > most then
        -- Which of those that were handed out are still leased: found by their ids, whatever else
        -- is in the queue.
        select
            coalesce(array_agg(j.job_id) filter (where j.visible_at > moment), '{}'),
            array_agg(j.job_id) filter (where j.visible_at <= moment)
        into leased_ids, late_ids
        from pgq.job as j
        where j.job_id = any(handed_out || array(
                select unnest(c.job_ids)
                from pgq.claim_count as c
                where c.queue_id = _allowed_claims.queue_id
                    and c.seq between state.first_seq and state.seq
            ))
            and j.lease_token is not null;

        if late_ids is not null then
            -- One that somebody has locked may be on the way to a longer lease. The others keep
            -- theirs as it is until this transaction ends: whoever extends one waits, and then
            -- finds it run out.
            leased_ids := leased_ids || array(
                select unnest(late_ids)
                except
                select l.job_id
                from (
                    select j.job_id
                    from pgq.job as j
                    where j.job_id = any(late_ids)
                        and j.visible_at - moment <= interval '0'
                    order by j.job_id
                    for update skip locked
                ) as l
            );
        end if;
    end if;

    if anew or cardinality(leased_ids) < state.leased then
        perform pgq._write_claims(state, leased_ids, true);
        state.leased := cardinality(leased_ids);
    end if;
    return greatest(least(allowed, most - state.leased), 0);
end
$$;

revoke all on function pgq._allowed_claims from public;

comment on function pgq._allowed_claims(bigint, integer) is
'How many of the wanted jobs a claim may take by max_leased and rate_limit of its queue. It locks
out other claims of the queue until the transaction ends.';

create function pgq._note_claims(queue_id bigint, job_ids bigint[])
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    state pgq.claim_count := pgq._claims_so_far(_note_claims.queue_id);
begin
    -- It may be less than was allowed: the limits may have been changed since.
    if state.credit is not null then
        state.credit := greatest(
            state.credit - cardinality(_note_claims.job_ids)::numeric * state.job_cost, 0
        );
    end if;
    if state.counted_xid is null
        or not exists (
            select
            from pgq.queue as q
            where q.queue_id = _note_claims.queue_id
                and q.max_leased is not null
        )
    then
        state.counted_xid := null;
        perform pgq._write_claims(state, '{}', true);
    else
        perform pgq._write_claims(state, _note_claims.job_ids, false);
    end if;
end
$$;

revoke all on function pgq._note_claims from public;

comment on function pgq._note_claims(bigint, bigint[]) is
'Counts the jobs of a claim, which _allowed_claims has allowed, against the limits of its queue.';

create function pgq._expand_runs(
    queue_id bigint,
    max_jobs integer,
    moment timestamptz,
    most_attempts integer,
    floor_time timestamptz,
    floor_id bigint
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    run pgq.job_run;
    wanted bigint := _expand_runs.max_jobs;
begin
    select r.*
    into run
    from pgq.job_run as r
    where r.queue_id = _expand_runs.queue_id
        and r.visible_at >= _expand_runs.floor_time
        and r.visible_at <= _expand_runs.moment
        and (r.expires_at is null or r.expires_at > _expand_runs.moment)
    order by r.visible_at, r.run_id
    limit 1;

    if run.run_id is null then
        return;
    end if;

    -- Jobs that are due earlier go first. They are locked here, since those that another claim has
    -- do not count; the claim takes them then.
    select wanted - count(*)
    into wanted
    from (
        select
        from pgq.job as k
        where k.queue_id = _expand_runs.queue_id
            and k.priority = 0
            and (k.visible_at, k.job_id) >= (_expand_runs.floor_time, _expand_runs.floor_id)
            and k.visible_at <= run.visible_at
            and (k.expires_at is null or k.expires_at > _expand_runs.moment)
            and k.attempt < coalesce(k.max_attempts, _expand_runs.most_attempts)
        order by k.visible_at, k.job_id
        limit _expand_runs.max_jobs
        for update skip locked
    ) as j;

    run.visible_at := _expand_runs.floor_time;
    run.run_id := 0;
    while wanted > 0 loop
        -- What another claim has locked it makes jobs of, unless it is rolled back.
        select r.*
        into run
        from pgq.job_run as r
        where r.queue_id = _expand_runs.queue_id
            and (r.visible_at, r.run_id) > (run.visible_at, run.run_id)
            and r.visible_at <= _expand_runs.moment
            and (r.expires_at is null or r.expires_at > _expand_runs.moment)
        order by r.visible_at, r.run_id
        limit 1
        for update skip locked;

        exit when run.run_id is null;
        perform pgq._expand_run(run);
        wanted := wanted - run.jobs;
    end loop;
end
$$;

revoke all on function pgq._expand_runs from public;

comment on function pgq._expand_runs(
    bigint, integer, timestamptz, integer, timestamptz, bigint
) is
'Makes jobs of so many runs of a queue as a claim of max_jobs needs: of those that are due before
the jobs that it would get otherwise. Called with what the claim has read.';

create or replace function pgq._claim_jobs(
    queue text,
    max_jobs integer,
    least_jobs integer,
    lease interval,
    label text,
    exhausted boolean
)
returns setof pgq.claimed_job
language plpgsql
volatile
parallel unsafe
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    wanted integer := _claim_jobs.max_jobs;
    target_id bigint;
    keep interval;
    most_attempts integer;
    paused boolean;
    limited boolean;
    subscribed boolean;
    common_times timestamptz[];
    common_ids bigint[];
    times timestamptz[];
    ids bigint[];
    common_raised_at timestamptz;
    raised_at timestamptz;
    era bigint;
    token uuid := gen_random_uuid();
    moment timestamptz := pgq._clock();
    keep_until timestamptz;
    places tid[];
    leaves integer[];
    keyed bigint[];
    taken_ids bigint[];
    first integer := 1;
    last integer;
    leaf integer;
    raising boolean;
    ordered boolean;
    noted_from timestamptz;
begin
    perform pgq._check_count('max_jobs', wanted, _claim_jobs.least_jobs, 100000);
    perform pgq._check_label(_claim_jobs.label);

    select
        q.queue_id,
        coalesce(_claim_jobs.lease, q.lease),
        coalesce(q.max_attempts, 2147483647),
        q.paused,
        q.ordered,
        f.note_floor,
        q.max_leased is not null or q.rate_limit is not null,
        q.subscribed,
        f.floor_times,
        f.floor_ids,
        f.recorded_at,
        f.epoch
    into
        target_id,
        keep,
        most_attempts,
        paused,
        ordered,
        noted_from,
        limited,
        subscribed,
        common_times,
        common_ids,
        common_raised_at,
        era
    from pgq.queue as q
    cross join lateral (
        select g.floor_times, g.floor_ids, g.recorded_at, g.epoch, g.note_floor
        from pgq.queue_floor as g
        where g.queue_id = q.queue_id
            and g.label = ''
        order by g.seq desc
        limit 1
    ) as f
    where q.queue = _claim_jobs.queue;

    if target_id is null
        or paused
        or wanted = 0
        or ordered
        or limited
        or current_setting('transaction_isolation') <> 'read committed'
    then
        if target_id is null then
            perform pgq._fail_unknown_queue(_claim_jobs.queue);
        end if;
        if paused or wanted = 0 then
            return;
        end if;
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            -- An old snapshot may name a limit of attempts that was lowered since, and cleanup has
            -- marked what had as many; the lock then raises 40001.
            perform
            from pgq.queue as q
            where q.queue_id = target_id
            for share;
        end if;
        if limited then
            wanted := pgq._allowed_claims(target_id, wanted);
            if wanted = 0 then
                return;
            end if;
        end if;
        if ordered then
            -- What comes up now is due now.
            perform pgq._settle_notes(
                target_id,
                case when common_raised_at > moment then '-infinity' else noted_from end,
                moment,
                wanted
            );
            moment := pgq._clock();
        end if;
    end if;

    if common_raised_at > moment and common_raised_at > pgq._clock() then
        -- The clock was set back, and whoever could start the floors again may be busy.
        common_times := array_fill('-infinity'::timestamptz, array[10]);
        common_ids := array_fill(0::bigint, array[10]);
        era := null;
    end if;

    if subscribed and _claim_jobs.label is null then
        perform pgq._expand_runs(
            target_id, wanted, moment, most_attempts, common_times[1], common_ids[1]
        );
    end if;

    times := common_times;
    ids := common_ids;
    if _claim_jobs.label is not null then
        -- The higher one of the floors of all claims and those of this label.
        select
            coalesce(array_agg(greatest(g.floor_time, o.floor_time) order by o.place), times),
            coalesce(
                array_agg(
                    case
                        when g.floor_time > o.floor_time then g.floor_id
                        when g.floor_time < o.floor_time then o.floor_id
                        else greatest(g.floor_id, o.floor_id)
                    end
                    order by o.place
                ),
                ids
            ),
            min(f.recorded_at)
        into times, ids, raised_at
        from (
            select h.floor_times, h.floor_ids, h.recorded_at, h.epoch
            from pgq.queue_floor as h
            where h.queue_id = target_id
                and h.label = '=' || _claim_jobs.label
            order by h.seq desc
            limit 1
        ) as f
        cross join lateral unnest(f.floor_times, f.floor_ids)
            with ordinality as g (floor_time, floor_id, place)
        inner join unnest(times, ids) with ordinality as o (floor_time, floor_id, place)
            on o.place = g.place
        where f.epoch = era;
    end if;

    -- One row per priority, the first one first. Those that had all their attempts are passed over.
    -- The limits stop the scan, and so the locking, as soon as there are enough.
    if _claim_jobs.label is null then
        select
            array_agg(c.place),
            array_agg(c.segment),
            array_agg(c.job_id) filter (where c.unique_key is not null),
            array_agg(c.job_id) filter (where limited)
        into places, leaves, keyed, taken_ids
        from (
            select j.place, j.segment, j.job_id, j.unique_key
            from unnest(times, ids) with ordinality as f (floor_time, floor_id, priority)
            cross join lateral (
                select k.ctid as place, k.segment, k.job_id, k.unique_key
                from pgq.job as k
                where k.queue_id = target_id
                    and k.priority = f.priority - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and k.visible_at <= moment
                    and (k.expires_at is null or k.expires_at > moment)
                    and k.attempt < coalesce(k.max_attempts, most_attempts)
                order by k.visible_at, k.job_id
                limit wanted
                for update skip locked
            ) as j
            limit wanted
        ) as c;
    else
        -- The same by the index on the label; no other index knows the negative id.
        select
            array_agg(c.place),
            array_agg(c.segment),
            array_agg(c.job_id) filter (where c.unique_key is not null),
            array_agg(c.job_id) filter (where limited)
        into places, leaves, keyed, taken_ids
        from (
            select j.place, j.segment, j.job_id, j.unique_key
            from unnest(times, ids) with ordinality as f (floor_time, floor_id, priority)
            cross join lateral (
                select k.ctid as place, k.segment, k.job_id, k.unique_key
                from pgq.job as k
                where -k.queue_id = -target_id
                    and k.label = _claim_jobs.label
                    and k.priority = f.priority - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and k.visible_at <= moment
                    and (k.expires_at is null or k.expires_at > moment)
                    and k.attempt < coalesce(k.max_attempts, most_attempts)
                order by k.visible_at, k.job_id
                limit wanted
                for update skip locked
            ) as j
            limit wanted
        ) as c;
    end if;

    -- Now and then, and less often when there is nothing to do. A label may have no floors of its
    -- own: it gets them when it has jobs.
    raising := coalesce(raised_at, common_raised_at) < moment - interval '20 milliseconds'
        and (
            places is not null
            or coalesce(raised_at, common_raised_at) < moment - interval '5 seconds'
        )
        or common_raised_at > moment;

    -- Where those that had all their attempts stand before all others, claims would walk them for
    -- ever.
    if (raising or _claim_jobs.exhausted or cardinality(places) < wanted or places is null)
        and exists (
            select
            from unnest(common_times, common_ids) with ordinality
                as f (floor_time, floor_id, priority)
            cross join lateral (
                select k.attempt, k.max_attempts
                from pgq.job as k
                where k.queue_id = target_id
                    and k.priority = f.priority - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and k.visible_at <= moment
                order by k.visible_at, k.job_id
                limit 1
            ) as j
            where j.attempt >= coalesce(j.max_attempts, most_attempts)
        )
    then
        perform pgq._bury_front(target_id, most_attempts, common_times, common_ids, moment, 999);
    end if;
    if ordered and (raising or cardinality(places) < wanted or places is null) then
        perform pgq._expire_front(target_id, common_times, common_ids, moment);
    end if;

    -- What stands in one segment, in a piece: usually all. Nobody moves the rows: they are locked.
    -- The clock is read behind the locks: by now this transaction has its id, on which the floor
    -- relies.
    keep_until := pgq._clock() + keep;
    while first <= cardinality(places) loop
        leaf := leaves[first];
        last := cardinality(places);
        if leaf <> any(leaves) then
            last := first;
            while leaves[last + 1] = leaf loop
                last := last + 1;
            end loop;
        end if;

        if leaf = 0 then
            return query
            with gone as (
                delete from pgq.job as j
                where j.ctid = any(places[first:last])
                returning j.*
            ),

            taken as (
                insert into pgq.job (
                    job_id,
                    queue_id,
                    partition_id,
                    log_offset,
                    expires_at,
                    visible_at,
                    segment,
                    attempt,
                    priority,
                    last_attempt,
                    lease_token,
                    label,
                    last_error,
                    unique_key,
                    max_attempts,
                    ordered_key
                )
                select
                    g.job_id,
                    g.queue_id,
                    g.partition_id,
                    g.log_offset,
                    g.expires_at,
                    keep_until,
                    g.segment,
                    g.attempt + 1,
                    g.priority,
                    g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                    token,
                    g.label,
                    g.last_error,
                    g.unique_key,
                    g.max_attempts,
                    g.ordered_key
                from gone as g
            )

            select
                g.job_id,
                token,
                g.attempt + 1,
                keep_until,
                m.published_at,
                g.priority::integer,
                m.key,
                g.label,
                m.headers,
                m.payload,
                m.body
            from gone as g
            left join pgq.message_0 as m
                on m.partition_id = g.partition_id
                and m.log_offset = g.log_offset
            order by g.priority, g.visible_at, g.job_id;
        elsif leaf = 1 then
            return query
            with gone as (
                delete from pgq.job as j
                where j.ctid = any(places[first:last])
                returning j.*
            ),

            taken as (
                insert into pgq.job (
                    job_id,
                    queue_id,
                    partition_id,
                    log_offset,
                    expires_at,
                    visible_at,
                    segment,
                    attempt,
                    priority,
                    last_attempt,
                    lease_token,
                    label,
                    last_error,
                    unique_key,
                    max_attempts,
                    ordered_key
                )
                select
                    g.job_id,
                    g.queue_id,
                    g.partition_id,
                    g.log_offset,
                    g.expires_at,
                    keep_until,
                    g.segment,
                    g.attempt + 1,
                    g.priority,
                    g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                    token,
                    g.label,
                    g.last_error,
                    g.unique_key,
                    g.max_attempts,
                    g.ordered_key
                from gone as g
            )

            select
                g.job_id,
                token,
                g.attempt + 1,
                keep_until,
                m.published_at,
                g.priority::integer,
                m.key,
                g.label,
                m.headers,
                m.payload,
                m.body
            from gone as g
            left join pgq.message_1 as m
                on m.partition_id = g.partition_id
                and m.log_offset = g.log_offset
            order by g.priority, g.visible_at, g.job_id;
        elsif leaf <= 3 then
            if leaf <= 2 then
                return query
                with gone as (
                    delete from pgq.job as j
                    where j.ctid = any(places[first:last])
                    returning j.*
                ),

                taken as (
                    insert into pgq.job (
                        job_id,
                        queue_id,
                        partition_id,
                        log_offset,
                        expires_at,
                        visible_at,
                        segment,
                        attempt,
                        priority,
                        last_attempt,
                        lease_token,
                        label,
                        last_error,
                        unique_key,
                        max_attempts,
                        ordered_key
                    )
                    select
                        g.job_id,
                        g.queue_id,
                        g.partition_id,
                        g.log_offset,
                        g.expires_at,
                        keep_until,
                        g.segment,
                        g.attempt + 1,
                        g.priority,
                        g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                        token,
                        g.label,
                        g.last_error,
                        g.unique_key,
                        g.max_attempts,
                        g.ordered_key
                    from gone as g
                )

                select
                    g.job_id,
                    token,
                    g.attempt + 1,
                    keep_until,
                    m.published_at,
                    g.priority::integer,
                    m.key,
                    g.label,
                    m.headers,
                    m.payload,
                    m.body
                from gone as g
                left join pgq.message_2 as m
                    on m.partition_id = g.partition_id
                    and m.log_offset = g.log_offset
                order by g.priority, g.visible_at, g.job_id;
            else
                return query
                with gone as (
                    delete from pgq.job as j
                    where j.ctid = any(places[first:last])
                    returning j.*
                ),

                taken as (
                    insert into pgq.job (
                        job_id,
                        queue_id,
                        partition_id,
                        log_offset,
                        expires_at,
                        visible_at,
                        segment,
                        attempt,
                        priority,
                        last_attempt,
                        lease_token,
                        label,
                        last_error,
                        unique_key,
                        max_attempts,
                        ordered_key
                    )
                    select
                        g.job_id,
                        g.queue_id,
                        g.partition_id,
                        g.log_offset,
                        g.expires_at,
                        keep_until,
                        g.segment,
                        g.attempt + 1,
                        g.priority,
                        g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                        token,
                        g.label,
                        g.last_error,
                        g.unique_key,
                        g.max_attempts,
                        g.ordered_key
                    from gone as g
                )

                select
                    g.job_id,
                    token,
                    g.attempt + 1,
                    keep_until,
                    m.published_at,
                    g.priority::integer,
                    m.key,
                    g.label,
                    m.headers,
                    m.payload,
                    m.body
                from gone as g
                left join pgq.message_3 as m
                    on m.partition_id = g.partition_id
                    and m.log_offset = g.log_offset
                order by g.priority, g.visible_at, g.job_id;
            end if;
        elsif leaf <= 7 then
            if leaf <= 5 then
                if leaf <= 4 then
                    return query
                    with gone as (
                        delete from pgq.job as j
                        where j.ctid = any(places[first:last])
                        returning j.*
                    ),

                    taken as (
                        insert into pgq.job (
                            job_id,
                            queue_id,
                            partition_id,
                            log_offset,
                            expires_at,
                            visible_at,
                            segment,
                            attempt,
                            priority,
                            last_attempt,
                            lease_token,
                            label,
                            last_error,
                            unique_key,
                            max_attempts,
                            ordered_key
                        )
                        select
                            g.job_id,
                            g.queue_id,
                            g.partition_id,
                            g.log_offset,
                            g.expires_at,
                            keep_until,
                            g.segment,
                            g.attempt + 1,
                            g.priority,
                            g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                            token,
                            g.label,
                            g.last_error,
                            g.unique_key,
                            g.max_attempts,
                            g.ordered_key
                        from gone as g
                    )

                    select
                        g.job_id,
                        token,
                        g.attempt + 1,
                        keep_until,
                        m.published_at,
                        g.priority::integer,
                        m.key,
                        g.label,
                        m.headers,
                        m.payload,
                        m.body
                    from gone as g
                    left join pgq.message_4 as m
                        on m.partition_id = g.partition_id
                        and m.log_offset = g.log_offset
                    order by g.priority, g.visible_at, g.job_id;
                else
                    return query
                    with gone as (
                        delete from pgq.job as j
                        where j.ctid = any(places[first:last])
                        returning j.*
                    ),

                    taken as (
                        insert into pgq.job (
                            job_id,
                            queue_id,
                            partition_id,
                            log_offset,
                            expires_at,
                            visible_at,
                            segment,
                            attempt,
                            priority,
                            last_attempt,
                            lease_token,
                            label,
                            last_error,
                            unique_key,
                            max_attempts,
                            ordered_key
                        )
                        select
                            g.job_id,
                            g.queue_id,
                            g.partition_id,
                            g.log_offset,
                            g.expires_at,
                            keep_until,
                            g.segment,
                            g.attempt + 1,
                            g.priority,
                            g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                            token,
                            g.label,
                            g.last_error,
                            g.unique_key,
                            g.max_attempts,
                            g.ordered_key
                        from gone as g
                    )

                    select
                        g.job_id,
                        token,
                        g.attempt + 1,
                        keep_until,
                        m.published_at,
                        g.priority::integer,
                        m.key,
                        g.label,
                        m.headers,
                        m.payload,
                        m.body
                    from gone as g
                    left join pgq.message_5 as m
                        on m.partition_id = g.partition_id
                        and m.log_offset = g.log_offset
                    order by g.priority, g.visible_at, g.job_id;
                end if;
            else
                if leaf <= 6 then
                    return query
                    with gone as (
                        delete from pgq.job as j
                        where j.ctid = any(places[first:last])
                        returning j.*
                    ),

                    taken as (
                        insert into pgq.job (
                            job_id,
                            queue_id,
                            partition_id,
                            log_offset,
                            expires_at,
                            visible_at,
                            segment,
                            attempt,
                            priority,
                            last_attempt,
                            lease_token,
                            label,
                            last_error,
                            unique_key,
                            max_attempts,
                            ordered_key
                        )
                        select
                            g.job_id,
                            g.queue_id,
                            g.partition_id,
                            g.log_offset,
                            g.expires_at,
                            keep_until,
                            g.segment,
                            g.attempt + 1,
                            g.priority,
                            g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                            token,
                            g.label,
                            g.last_error,
                            g.unique_key,
                            g.max_attempts,
                            g.ordered_key
                        from gone as g
                    )

                    select
                        g.job_id,
                        token,
                        g.attempt + 1,
                        keep_until,
                        m.published_at,
                        g.priority::integer,
                        m.key,
                        g.label,
                        m.headers,
                        m.payload,
                        m.body
                    from gone as g
                    left join pgq.message_6 as m
                        on m.partition_id = g.partition_id
                        and m.log_offset = g.log_offset
                    order by g.priority, g.visible_at, g.job_id;
                else
                    return query
                    with gone as (
                        delete from pgq.job as j
                        where j.ctid = any(places[first:last])
                        returning j.*
                    ),

                    taken as (
                        insert into pgq.job (
                            job_id,
                            queue_id,
                            partition_id,
                            log_offset,
                            expires_at,
                            visible_at,
                            segment,
                            attempt,
                            priority,
                            last_attempt,
                            lease_token,
                            label,
                            last_error,
                            unique_key,
                            max_attempts,
                            ordered_key
                        )
                        select
                            g.job_id,
                            g.queue_id,
                            g.partition_id,
                            g.log_offset,
                            g.expires_at,
                            keep_until,
                            g.segment,
                            g.attempt + 1,
                            g.priority,
                            g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                            token,
                            g.label,
                            g.last_error,
                            g.unique_key,
                            g.max_attempts,
                            g.ordered_key
                        from gone as g
                    )

                    select
                        g.job_id,
                        token,
                        g.attempt + 1,
                        keep_until,
                        m.published_at,
                        g.priority::integer,
                        m.key,
                        g.label,
                        m.headers,
                        m.payload,
                        m.body
                    from gone as g
                    left join pgq.message_7 as m
                        on m.partition_id = g.partition_id
                        and m.log_offset = g.log_offset
                    order by g.priority, g.visible_at, g.job_id;
                end if;
            end if;
        elsif leaf <= 15 then
            if leaf <= 11 then
                if leaf <= 9 then
                    if leaf <= 8 then
                        return query
                        with gone as (
                            delete from pgq.job as j
                            where j.ctid = any(places[first:last])
                            returning j.*
                        ),

                        taken as (
                            insert into pgq.job (
                                job_id,
                                queue_id,
                                partition_id,
                                log_offset,
                                expires_at,
                                visible_at,
                                segment,
                                attempt,
                                priority,
                                last_attempt,
                                lease_token,
                                label,
                                last_error,
                                unique_key,
                                max_attempts,
                                ordered_key
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                g.partition_id,
                                g.log_offset,
                                g.expires_at,
                                keep_until,
                                g.segment,
                                g.attempt + 1,
                                g.priority,
                                g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                                token,
                                g.label,
                                g.last_error,
                                g.unique_key,
                                g.max_attempts,
                                g.ordered_key
                            from gone as g
                        )

                        select
                            g.job_id,
                            token,
                            g.attempt + 1,
                            keep_until,
                            m.published_at,
                            g.priority::integer,
                            m.key,
                            g.label,
                            m.headers,
                            m.payload,
                            m.body
                        from gone as g
                        left join pgq.message_8 as m
                            on m.partition_id = g.partition_id
                            and m.log_offset = g.log_offset
                        order by g.priority, g.visible_at, g.job_id;
                    else
                        return query
                        with gone as (
                            delete from pgq.job as j
                            where j.ctid = any(places[first:last])
                            returning j.*
                        ),

                        taken as (
                            insert into pgq.job (
                                job_id,
                                queue_id,
                                partition_id,
                                log_offset,
                                expires_at,
                                visible_at,
                                segment,
                                attempt,
                                priority,
                                last_attempt,
                                lease_token,
                                label,
                                last_error,
                                unique_key,
                                max_attempts,
                                ordered_key
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                g.partition_id,
                                g.log_offset,
                                g.expires_at,
                                keep_until,
                                g.segment,
                                g.attempt + 1,
                                g.priority,
                                g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                                token,
                                g.label,
                                g.last_error,
                                g.unique_key,
                                g.max_attempts,
                                g.ordered_key
                            from gone as g
                        )

                        select
                            g.job_id,
                            token,
                            g.attempt + 1,
                            keep_until,
                            m.published_at,
                            g.priority::integer,
                            m.key,
                            g.label,
                            m.headers,
                            m.payload,
                            m.body
                        from gone as g
                        left join pgq.message_9 as m
                            on m.partition_id = g.partition_id
                            and m.log_offset = g.log_offset
                        order by g.priority, g.visible_at, g.job_id;
                    end if;
                else
                    if leaf <= 10 then
                        return query
                        with gone as (
                            delete from pgq.job as j
                            where j.ctid = any(places[first:last])
                            returning j.*
                        ),

                        taken as (
                            insert into pgq.job (
                                job_id,
                                queue_id,
                                partition_id,
                                log_offset,
                                expires_at,
                                visible_at,
                                segment,
                                attempt,
                                priority,
                                last_attempt,
                                lease_token,
                                label,
                                last_error,
                                unique_key,
                                max_attempts,
                                ordered_key
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                g.partition_id,
                                g.log_offset,
                                g.expires_at,
                                keep_until,
                                g.segment,
                                g.attempt + 1,
                                g.priority,
                                g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                                token,
                                g.label,
                                g.last_error,
                                g.unique_key,
                                g.max_attempts,
                                g.ordered_key
                            from gone as g
                        )

                        select
                            g.job_id,
                            token,
                            g.attempt + 1,
                            keep_until,
                            m.published_at,
                            g.priority::integer,
                            m.key,
                            g.label,
                            m.headers,
                            m.payload,
                            m.body
                        from gone as g
                        left join pgq.message_10 as m
                            on m.partition_id = g.partition_id
                            and m.log_offset = g.log_offset
                        order by g.priority, g.visible_at, g.job_id;
                    else
                        return query
                        with gone as (
                            delete from pgq.job as j
                            where j.ctid = any(places[first:last])
                            returning j.*
                        ),

                        taken as (
                            insert into pgq.job (
                                job_id,
                                queue_id,
                                partition_id,
                                log_offset,
                                expires_at,
                                visible_at,
                                segment,
                                attempt,
                                priority,
                                last_attempt,
                                lease_token,
                                label,
                                last_error,
                                unique_key,
                                max_attempts,
                                ordered_key
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                g.partition_id,
                                g.log_offset,
                                g.expires_at,
                                keep_until,
                                g.segment,
                                g.attempt + 1,
                                g.priority,
                                g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                                token,
                                g.label,
                                g.last_error,
                                g.unique_key,
                                g.max_attempts,
                                g.ordered_key
                            from gone as g
                        )

                        select
                            g.job_id,
                            token,
                            g.attempt + 1,
                            keep_until,
                            m.published_at,
                            g.priority::integer,
                            m.key,
                            g.label,
                            m.headers,
                            m.payload,
                            m.body
                        from gone as g
                        left join pgq.message_11 as m
                            on m.partition_id = g.partition_id
                            and m.log_offset = g.log_offset
                        order by g.priority, g.visible_at, g.job_id;
                    end if;
                end if;
            else
                if leaf <= 13 then
                    if leaf <= 12 then
                        return query
                        with gone as (
                            delete from pgq.job as j
                            where j.ctid = any(places[first:last])
                            returning j.*
                        ),

                        taken as (
                            insert into pgq.job (
                                job_id,
                                queue_id,
                                partition_id,
                                log_offset,
                                expires_at,
                                visible_at,
                                segment,
                                attempt,
                                priority,
                                last_attempt,
                                lease_token,
                                label,
                                last_error,
                                unique_key,
                                max_attempts,
                                ordered_key
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                g.partition_id,
                                g.log_offset,
                                g.expires_at,
                                keep_until,
                                g.segment,
                                g.attempt + 1,
                                g.priority,
                                g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                                token,
                                g.label,
                                g.last_error,
                                g.unique_key,
                                g.max_attempts,
                                g.ordered_key
                            from gone as g
                        )

                        select
                            g.job_id,
                            token,
                            g.attempt + 1,
                            keep_until,
                            m.published_at,
                            g.priority::integer,
                            m.key,
                            g.label,
                            m.headers,
                            m.payload,
                            m.body
                        from gone as g
                        left join pgq.message_12 as m
                            on m.partition_id = g.partition_id
                            and m.log_offset = g.log_offset
                        order by g.priority, g.visible_at, g.job_id;
                    else
                        return query
                        with gone as (
                            delete from pgq.job as j
                            where j.ctid = any(places[first:last])
                            returning j.*
                        ),

                        taken as (
                            insert into pgq.job (
                                job_id,
                                queue_id,
                                partition_id,
                                log_offset,
                                expires_at,
                                visible_at,
                                segment,
                                attempt,
                                priority,
                                last_attempt,
                                lease_token,
                                label,
                                last_error,
                                unique_key,
                                max_attempts,
                                ordered_key
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                g.partition_id,
                                g.log_offset,
                                g.expires_at,
                                keep_until,
                                g.segment,
                                g.attempt + 1,
                                g.priority,
                                g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                                token,
                                g.label,
                                g.last_error,
                                g.unique_key,
                                g.max_attempts,
                                g.ordered_key
                            from gone as g
                        )

                        select
                            g.job_id,
                            token,
                            g.attempt + 1,
                            keep_until,
                            m.published_at,
                            g.priority::integer,
                            m.key,
                            g.label,
                            m.headers,
                            m.payload,
                            m.body
                        from gone as g
                        left join pgq.message_13 as m
                            on m.partition_id = g.partition_id
                            and m.log_offset = g.log_offset
                        order by g.priority, g.visible_at, g.job_id;
                    end if;
                else
                    if leaf <= 14 then
                        return query
                        with gone as (
                            delete from pgq.job as j
                            where j.ctid = any(places[first:last])
                            returning j.*
                        ),

                        taken as (
                            insert into pgq.job (
                                job_id,
                                queue_id,
                                partition_id,
                                log_offset,
                                expires_at,
                                visible_at,
                                segment,
                                attempt,
                                priority,
                                last_attempt,
                                lease_token,
                                label,
                                last_error,
                                unique_key,
                                max_attempts,
                                ordered_key
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                g.partition_id,
                                g.log_offset,
                                g.expires_at,
                                keep_until,
                                g.segment,
                                g.attempt + 1,
                                g.priority,
                                g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                                token,
                                g.label,
                                g.last_error,
                                g.unique_key,
                                g.max_attempts,
                                g.ordered_key
                            from gone as g
                        )

                        select
                            g.job_id,
                            token,
                            g.attempt + 1,
                            keep_until,
                            m.published_at,
                            g.priority::integer,
                            m.key,
                            g.label,
                            m.headers,
                            m.payload,
                            m.body
                        from gone as g
                        left join pgq.message_14 as m
                            on m.partition_id = g.partition_id
                            and m.log_offset = g.log_offset
                        order by g.priority, g.visible_at, g.job_id;
                    else
                        return query
                        with gone as (
                            delete from pgq.job as j
                            where j.ctid = any(places[first:last])
                            returning j.*
                        ),

                        taken as (
                            insert into pgq.job (
                                job_id,
                                queue_id,
                                partition_id,
                                log_offset,
                                expires_at,
                                visible_at,
                                segment,
                                attempt,
                                priority,
                                last_attempt,
                                lease_token,
                                label,
                                last_error,
                                unique_key,
                                max_attempts,
                                ordered_key
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                g.partition_id,
                                g.log_offset,
                                g.expires_at,
                                keep_until,
                                g.segment,
                                g.attempt + 1,
                                g.priority,
                                g.attempt + 1 >= coalesce(g.max_attempts, most_attempts),
                                token,
                                g.label,
                                g.last_error,
                                g.unique_key,
                                g.max_attempts,
                                g.ordered_key
                            from gone as g
                        )

                        select
                            g.job_id,
                            token,
                            g.attempt + 1,
                            keep_until,
                            m.published_at,
                            g.priority::integer,
                            m.key,
                            g.label,
                            m.headers,
                            m.payload,
                            m.body
                        from gone as g
                        left join pgq.message_15 as m
                            on m.partition_id = g.partition_id
                            and m.log_offset = g.log_offset
                        order by g.priority, g.visible_at, g.job_id;
                    end if;
                end if;
            end if;
        else
            return query execute format($leaf$
                with gone as (
                    delete from pgq.job as j
                    where j.ctid = any($1)
                    returning j.*
                ),

                taken as (
                    insert into pgq.job (
                        job_id,
                        queue_id,
                        partition_id,
                        log_offset,
                        expires_at,
                        visible_at,
                        segment,
                        attempt,
                        priority,
                        last_attempt,
                        lease_token,
                        label,
                        last_error,
                        unique_key,
                        max_attempts,
                        ordered_key
                    )
                    select
                        g.job_id,
                        g.queue_id,
                        g.partition_id,
                        g.log_offset,
                        g.expires_at,
                        $2,
                        g.segment,
                        g.attempt + 1,
                        g.priority,
                        g.attempt + 1 >= coalesce(g.max_attempts, $3),
                        $4,
                        g.label,
                        g.last_error,
                        g.unique_key,
                        g.max_attempts,
                        g.ordered_key
                    from gone as g
                )

                select
                    g.job_id,
                    $4,
                    g.attempt + 1,
                    $2,
                    m.published_at,
                    g.priority::integer,
                    m.key,
                    g.label,
                    m.headers,
                    m.payload,
                    m.body
                from gone as g
                left join pgq.message_%1$s as m
                    on m.partition_id = g.partition_id
                    and m.log_offset = g.log_offset
                order by g.priority, g.visible_at, g.job_id
            $leaf$, leaf)
            using places[first:last], keep_until, most_attempts, token;
        end if;

        first := last + 1;
    end loop;

    if raising or keyed is not null or taken_ids is not null then
        if taken_ids is not null then
            perform pgq._note_claims(target_id, taken_ids);
        end if;
        if keyed is not null then
            perform pgq._free_claimed(keyed);
        end if;
        if not raising then
            return;
        end if;
        if _claim_jobs.label is null or (raised_at is null and places is null) then
            perform pgq._raise_floor(target_id, moment);
        else
            perform pgq._raise_label_floor(target_id, _claim_jobs.label, moment);
        end if;
    end if;
end
$$;

create or replace function pgq.claim_job(
    queue text,
    max_jobs integer default 1,
    lease interval default null,
    label text default null
)
returns setof pgq.claimed_job
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    target_id bigint;
    keep interval;
    most_attempts integer;
    first_time timestamptz;
    first_id bigint;
    token uuid;
    moment timestamptz;
    usual boolean;
    fresh boolean;
    number bigint;
    store_id bigint;
    store_offset bigint;
    ends_at timestamptz;
    leaf integer;
    delivery integer;
    job_label text;
    job_error text;
    was_leased boolean;
    keep_until timestamptz;
    job_key text;
    job_attempts integer;
    special boolean;
begin
    if claim_job.lease is not null then
        perform pgq._check_interval('lease', claim_job.lease, false);
    end if;

    -- The usual case: one job of priority 0. _claim_jobs knows the others. Few conditions, no joins
    -- and no arrays, since each of them takes time.
    select
        q.queue_id,
        coalesce(claim_job.lease, q.lease),
        coalesce(q.max_attempts, 2147483647),
        gen_random_uuid(),
        pgq._clock(),
        coalesce(claim_job.max_jobs, 1) = 1
        and claim_job.label is null
        and not q.paused
        and not q.ordered
        and q.max_leased is null
        and q.rate_limit is null
        and not q.subscribed
    into target_id, keep, most_attempts, token, moment, usual
    from pgq.queue as q
    where q.queue = claim_job.queue collate "C";

    if usual then
        select
            f.floor_times[1],
            f.floor_ids[1],
            f.recorded_at between moment - interval '20 milliseconds' and moment
        into first_time, first_id, fresh
        from pgq.queue_floor as f
        where f.queue_id = target_id
            and f.label = ''
        order by f.seq desc
        limit 1;

        -- By its place, which takes less time than by its id. A row that cleanup has moved to another
        -- place since is not found; _claim_jobs then finds it. The clock is read behind the lock: by
        -- then this transaction has its id, on which the floor relies.
        delete from pgq.job as j
        where j.ctid = (
            select k.ctid
            from pgq.job as k
            where k.queue_id = target_id
                and k.priority = 0
                and (k.visible_at, k.job_id) >= (first_time, first_id)
                and k.visible_at <= moment
                and (k.expires_at is null or k.expires_at > moment)
            order by k.visible_at, k.job_id
            limit 1
            for update skip locked
        )
        returning
            j.job_id,
            j.partition_id,
            j.log_offset,
            j.expires_at,
            j.segment,
            j.attempt + 1,
            j.label,
            j.last_error,
            j.lease_token is not null,
            pgq._clock() + keep,
            j.unique_key,
            j.max_attempts,
            not fresh
            or j.unique_key is not null
            or j.attempt >= coalesce(j.max_attempts, most_attempts)
        into
            number,
            store_id,
            store_offset,
            ends_at,
            leaf,
            delivery,
            job_label,
            job_error,
            was_leased,
            keep_until,
            job_key,
            job_attempts,
            special;

        if found then
            insert into pgq.job (
                job_id,
                queue_id,
                partition_id,
                log_offset,
                expires_at,
                visible_at,
                segment,
                attempt,
                priority,
                last_attempt,
                lease_token,
                label,
                last_error,
                unique_key,
                max_attempts
            )
            values (
                number,
                target_id,
                store_id,
                store_offset,
                ends_at,
                keep_until,
                leaf,
                delivery,
                0,
                delivery >= coalesce(job_attempts, most_attempts),
                token,
                job_label,
                job_error,
                job_key,
                job_attempts
            );

            if special then
                if delivery > coalesce(job_attempts, most_attempts) then
                    perform pgq._bury(array[number], 1, was_leased, null);

                    return query
                    select c.*
                    from pgq._claim_jobs(
                        claim_job.queue collate "C",
                        1,
                        1,
                        claim_job.lease,
                        claim_job.label,
                        true
                    ) as c;
                    return;
                end if;

                if job_key is not null then
                    perform pgq._free_claimed(array[number]);
                end if;
                if not fresh then
                    perform pgq._raise_floor(target_id, moment);
                end if;
            end if;

            if leaf = 0 then
                return query
                select
                    number,
                    token,
                    delivery,
                    keep_until,
                    m.published_at,
                    0,
                    m.key,
                    job_label,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_0 as m
                where m.partition_id = store_id
                    and m.log_offset = store_offset;
            elsif leaf = 1 then
                return query
                select
                    number,
                    token,
                    delivery,
                    keep_until,
                    m.published_at,
                    0,
                    m.key,
                    job_label,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_1 as m
                where m.partition_id = store_id
                    and m.log_offset = store_offset;
            elsif leaf <= 3 then
                if leaf <= 2 then
                    return query
                    select
                        number,
                        token,
                        delivery,
                        keep_until,
                        m.published_at,
                        0,
                        m.key,
                        job_label,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_2 as m
                    where m.partition_id = store_id
                        and m.log_offset = store_offset;
                else
                    return query
                    select
                        number,
                        token,
                        delivery,
                        keep_until,
                        m.published_at,
                        0,
                        m.key,
                        job_label,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_3 as m
                    where m.partition_id = store_id
                        and m.log_offset = store_offset;
                end if;
            elsif leaf <= 7 then
                if leaf <= 5 then
                    if leaf <= 4 then
                        return query
                        select
                            number,
                            token,
                            delivery,
                            keep_until,
                            m.published_at,
                            0,
                            m.key,
                            job_label,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_4 as m
                        where m.partition_id = store_id
                            and m.log_offset = store_offset;
                    else
                        return query
                        select
                            number,
                            token,
                            delivery,
                            keep_until,
                            m.published_at,
                            0,
                            m.key,
                            job_label,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_5 as m
                        where m.partition_id = store_id
                            and m.log_offset = store_offset;
                    end if;
                else
                    if leaf <= 6 then
                        return query
                        select
                            number,
                            token,
                            delivery,
                            keep_until,
                            m.published_at,
                            0,
                            m.key,
                            job_label,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_6 as m
                        where m.partition_id = store_id
                            and m.log_offset = store_offset;
                    else
                        return query
                        select
                            number,
                            token,
                            delivery,
                            keep_until,
                            m.published_at,
                            0,
                            m.key,
                            job_label,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_7 as m
                        where m.partition_id = store_id
                            and m.log_offset = store_offset;
                    end if;
                end if;
            elsif leaf <= 15 then
                if leaf <= 11 then
                    if leaf <= 9 then
                        if leaf <= 8 then
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_8 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        else
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_9 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        end if;
                    else
                        if leaf <= 10 then
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_10 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        else
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_11 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        end if;
                    end if;
                else
                    if leaf <= 13 then
                        if leaf <= 12 then
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_12 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        else
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_13 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        end if;
                    else
                        if leaf <= 14 then
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_14 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        else
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_15 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        end if;
                    end if;
                end if;
            else
                return query execute format($leaf$
                    select
                        $1,
                        $2,
                        $3,
                        $4,
                        m.published_at,
                        0,
                        m.key,
                        $5,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_%1$s as m
                    where m.partition_id = $6
                        and m.log_offset = $7
                $leaf$, leaf)
                using number, token, delivery, keep_until, job_label, store_id, store_offset;
            end if;
            if not found then
                -- It is leased, so it is returned, whatever happened to its message.
                return query
                select
                    number,
                    token,
                    delivery,
                    keep_until,
                    null::timestamptz,
                    0,
                    null::text,
                    job_label,
                    null::jsonb,
                    null::jsonb,
                    null::bytea;
            end if;
            return;
        end if;
    end if;

    return query
    select c.*
    from pgq._claim_jobs(
        claim_job.queue collate "C",
        coalesce(claim_job.max_jobs,1),
        1,
        claim_job.lease,
        claim_job.label,
        false
    ) as c;
end
$$;

comment on function pgq.claim_job(text, integer, interval, text) is
'Leases up to max_jobs (1 to 100000) jobs of a queue to the caller and returns them.
A worker that finishes calls ack (or archive_job), one that fails calls nack, with the lease
token; if it does neither before leased_until, the job goes to the next claim, with the next
attempt number. Lower priority numbers come first, then what is due longest. One call gives all
its jobs one token. Concurrent claims get different jobs and do not wait for each other. A claim
in a transaction that is rolled back, or whose client dies before commit, has not happened. lease:
how long the caller has the jobs, by the clock, not from the begin of the transaction; by default
what the queue says. label: only jobs with exactly this label. No row: nothing is due, or the
queue is paused, or one of its limits (max_leased, rate_limit) is reached. Claims of a queue with
such a limit do wait for each other, until the transaction ends.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad max_jobs or lease, 40001
above READ COMMITTED when another transaction was first (try again).';

create or replace function pgq._finish(
    job_ids bigint[],
    lease_token uuid,
    outcome text,
    result jsonb,
    always boolean
)
returns setof bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    rest bigint[] := _finish.job_ids;
    ended bigint[];
    others pgq.job[];
    leaf integer;
    target_id bigint;
    store_id bigint;
    archive boolean;
begin
    while cardinality(rest) > 0 loop
        -- The jobs of a token are of one queue, and usually of one segment. No join: a plan made
        -- while the tables were empty may walk all jobs in the order of their queues.
        select j.segment, j.queue_id
        into leaf, target_id
        from pgq.job as j
        where j.job_id = any(rest)
            and j.lease_token = _finish.lease_token
        limit 1;

        if leaf is null then
            perform pgq._still_leased(rest, _finish.lease_token);
            return;
        end if;

        -- A queue that was dropped archives nothing.
        select q.partition_id, q.archive or _finish.always
        into store_id, archive
        from pgq.queue as q
        where q.queue_id = target_id;
        archive := coalesce(archive, false);

        -- Those of all segments at once: in the order of their ids, as everywhere where several
        -- jobs are locked.
        if leaf = 0 then
            with gone as (
                delete from pgq.job as j
                where j.job_id = any(rest)
                    and j.lease_token = _finish.lease_token
                returning j.*
            ),

            archived as (
                insert into pgq.job_archive_0 (
                    job_id,
                    queue_id,
                    ended_at,
                    segment,
                    attempt,
                    outcome,
                    label,
                    result,
                    last_error,
                    partition_id,
                    log_offset
                )
                select
                    g.job_id,
                    g.queue_id,
                    pgq._clock(),
                    0,
                    g.attempt,
                    _finish.outcome,
                    g.label,
                    _finish.result,
                    g.last_error,
                    nullif(g.partition_id, store_id),
                    case when g.partition_id <> store_id then g.log_offset end
                from gone as g
                where archive
                    and g.segment = 0
            )

            select
                array_agg(g.job_id),
                array_agg(row(g.*)::pgq.job) filter (
                    where (archive and g.segment <> 0)
                    or g.unique_key is not null
                    or g.ordered_key is not null
                )
            from gone as g
            into ended, others;
        elsif leaf = 1 then
            with gone as (
                delete from pgq.job as j
                where j.job_id = any(rest)
                    and j.lease_token = _finish.lease_token
                returning j.*
            ),

            archived as (
                insert into pgq.job_archive_1 (
                    job_id,
                    queue_id,
                    ended_at,
                    segment,
                    attempt,
                    outcome,
                    label,
                    result,
                    last_error,
                    partition_id,
                    log_offset
                )
                select
                    g.job_id,
                    g.queue_id,
                    pgq._clock(),
                    1,
                    g.attempt,
                    _finish.outcome,
                    g.label,
                    _finish.result,
                    g.last_error,
                    nullif(g.partition_id, store_id),
                    case when g.partition_id <> store_id then g.log_offset end
                from gone as g
                where archive
                    and g.segment = 1
            )

            select
                array_agg(g.job_id),
                array_agg(row(g.*)::pgq.job) filter (
                    where (archive and g.segment <> 1)
                    or g.unique_key is not null
                    or g.ordered_key is not null
                )
            from gone as g
            into ended, others;
        elsif leaf <= 3 then
            if leaf <= 2 then
                with gone as (
                    delete from pgq.job as j
                    where j.job_id = any(rest)
                        and j.lease_token = _finish.lease_token
                    returning j.*
                ),

                archived as (
                    insert into pgq.job_archive_2 (
                        job_id,
                        queue_id,
                        ended_at,
                        segment,
                        attempt,
                        outcome,
                        label,
                        result,
                        last_error,
                        partition_id,
                        log_offset
                    )
                    select
                        g.job_id,
                        g.queue_id,
                        pgq._clock(),
                        2,
                        g.attempt,
                        _finish.outcome,
                        g.label,
                        _finish.result,
                        g.last_error,
                        nullif(g.partition_id, store_id),
                        case when g.partition_id <> store_id then g.log_offset end
                    from gone as g
                    where archive
                        and g.segment = 2
                )

                select
                    array_agg(g.job_id),
                    array_agg(row(g.*)::pgq.job) filter (
                        where (archive and g.segment <> 2)
                        or g.unique_key is not null
                        or g.ordered_key is not null
                    )
                from gone as g
                into ended, others;
            else
                with gone as (
                    delete from pgq.job as j
                    where j.job_id = any(rest)
                        and j.lease_token = _finish.lease_token
                    returning j.*
                ),

                archived as (
                    insert into pgq.job_archive_3 (
                        job_id,
                        queue_id,
                        ended_at,
                        segment,
                        attempt,
                        outcome,
                        label,
                        result,
                        last_error,
                        partition_id,
                        log_offset
                    )
                    select
                        g.job_id,
                        g.queue_id,
                        pgq._clock(),
                        3,
                        g.attempt,
                        _finish.outcome,
                        g.label,
                        _finish.result,
                        g.last_error,
                        nullif(g.partition_id, store_id),
                        case when g.partition_id <> store_id then g.log_offset end
                    from gone as g
                    where archive
                        and g.segment = 3
                )

                select
                    array_agg(g.job_id),
                    array_agg(row(g.*)::pgq.job) filter (
                        where (archive and g.segment <> 3)
                        or g.unique_key is not null
                        or g.ordered_key is not null
                    )
                from gone as g
                into ended, others;
            end if;
        elsif leaf <= 7 then
            if leaf <= 5 then
                if leaf <= 4 then
                    with gone as (
                        delete from pgq.job as j
                        where j.job_id = any(rest)
                            and j.lease_token = _finish.lease_token
                        returning j.*
                    ),

                    archived as (
                        insert into pgq.job_archive_4 (
                            job_id,
                            queue_id,
                            ended_at,
                            segment,
                            attempt,
                            outcome,
                            label,
                            result,
                            last_error,
                            partition_id,
                            log_offset
                        )
                        select
                            g.job_id,
                            g.queue_id,
                            pgq._clock(),
                            4,
                            g.attempt,
                            _finish.outcome,
                            g.label,
                            _finish.result,
                            g.last_error,
                            nullif(g.partition_id, store_id),
                            case when g.partition_id <> store_id then g.log_offset end
                        from gone as g
                        where archive
                            and g.segment = 4
                    )

                    select
                        array_agg(g.job_id),
                        array_agg(row(g.*)::pgq.job) filter (
                            where (archive and g.segment <> 4)
                            or g.unique_key is not null
                            or g.ordered_key is not null
                        )
                    from gone as g
                    into ended, others;
                else
                    with gone as (
                        delete from pgq.job as j
                        where j.job_id = any(rest)
                            and j.lease_token = _finish.lease_token
                        returning j.*
                    ),

                    archived as (
                        insert into pgq.job_archive_5 (
                            job_id,
                            queue_id,
                            ended_at,
                            segment,
                            attempt,
                            outcome,
                            label,
                            result,
                            last_error,
                            partition_id,
                            log_offset
                        )
                        select
                            g.job_id,
                            g.queue_id,
                            pgq._clock(),
                            5,
                            g.attempt,
                            _finish.outcome,
                            g.label,
                            _finish.result,
                            g.last_error,
                            nullif(g.partition_id, store_id),
                            case when g.partition_id <> store_id then g.log_offset end
                        from gone as g
                        where archive
                            and g.segment = 5
                    )

                    select
                        array_agg(g.job_id),
                        array_agg(row(g.*)::pgq.job) filter (
                            where (archive and g.segment <> 5)
                            or g.unique_key is not null
                            or g.ordered_key is not null
                        )
                    from gone as g
                    into ended, others;
                end if;
            else
                if leaf <= 6 then
                    with gone as (
                        delete from pgq.job as j
                        where j.job_id = any(rest)
                            and j.lease_token = _finish.lease_token
                        returning j.*
                    ),

                    archived as (
                        insert into pgq.job_archive_6 (
                            job_id,
                            queue_id,
                            ended_at,
                            segment,
                            attempt,
                            outcome,
                            label,
                            result,
                            last_error,
                            partition_id,
                            log_offset
                        )
                        select
                            g.job_id,
                            g.queue_id,
                            pgq._clock(),
                            6,
                            g.attempt,
                            _finish.outcome,
                            g.label,
                            _finish.result,
                            g.last_error,
                            nullif(g.partition_id, store_id),
                            case when g.partition_id <> store_id then g.log_offset end
                        from gone as g
                        where archive
                            and g.segment = 6
                    )

                    select
                        array_agg(g.job_id),
                        array_agg(row(g.*)::pgq.job) filter (
                            where (archive and g.segment <> 6)
                            or g.unique_key is not null
                            or g.ordered_key is not null
                        )
                    from gone as g
                    into ended, others;
                else
                    with gone as (
                        delete from pgq.job as j
                        where j.job_id = any(rest)
                            and j.lease_token = _finish.lease_token
                        returning j.*
                    ),

                    archived as (
                        insert into pgq.job_archive_7 (
                            job_id,
                            queue_id,
                            ended_at,
                            segment,
                            attempt,
                            outcome,
                            label,
                            result,
                            last_error,
                            partition_id,
                            log_offset
                        )
                        select
                            g.job_id,
                            g.queue_id,
                            pgq._clock(),
                            7,
                            g.attempt,
                            _finish.outcome,
                            g.label,
                            _finish.result,
                            g.last_error,
                            nullif(g.partition_id, store_id),
                            case when g.partition_id <> store_id then g.log_offset end
                        from gone as g
                        where archive
                            and g.segment = 7
                    )

                    select
                        array_agg(g.job_id),
                        array_agg(row(g.*)::pgq.job) filter (
                            where (archive and g.segment <> 7)
                            or g.unique_key is not null
                            or g.ordered_key is not null
                        )
                    from gone as g
                    into ended, others;
                end if;
            end if;
        elsif leaf <= 15 then
            if leaf <= 11 then
                if leaf <= 9 then
                    if leaf <= 8 then
                        with gone as (
                            delete from pgq.job as j
                            where j.job_id = any(rest)
                                and j.lease_token = _finish.lease_token
                            returning j.*
                        ),

                        archived as (
                            insert into pgq.job_archive_8 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                result,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                pgq._clock(),
                                8,
                                g.attempt,
                                _finish.outcome,
                                g.label,
                                _finish.result,
                                g.last_error,
                                nullif(g.partition_id, store_id),
                                case when g.partition_id <> store_id then g.log_offset end
                            from gone as g
                            where archive
                                and g.segment = 8
                        )

                        select
                            array_agg(g.job_id),
                            array_agg(row(g.*)::pgq.job) filter (
                                where (archive and g.segment <> 8)
                                or g.unique_key is not null
                                or g.ordered_key is not null
                            )
                        from gone as g
                        into ended, others;
                    else
                        with gone as (
                            delete from pgq.job as j
                            where j.job_id = any(rest)
                                and j.lease_token = _finish.lease_token
                            returning j.*
                        ),

                        archived as (
                            insert into pgq.job_archive_9 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                result,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                pgq._clock(),
                                9,
                                g.attempt,
                                _finish.outcome,
                                g.label,
                                _finish.result,
                                g.last_error,
                                nullif(g.partition_id, store_id),
                                case when g.partition_id <> store_id then g.log_offset end
                            from gone as g
                            where archive
                                and g.segment = 9
                        )

                        select
                            array_agg(g.job_id),
                            array_agg(row(g.*)::pgq.job) filter (
                                where (archive and g.segment <> 9)
                                or g.unique_key is not null
                                or g.ordered_key is not null
                            )
                        from gone as g
                        into ended, others;
                    end if;
                else
                    if leaf <= 10 then
                        with gone as (
                            delete from pgq.job as j
                            where j.job_id = any(rest)
                                and j.lease_token = _finish.lease_token
                            returning j.*
                        ),

                        archived as (
                            insert into pgq.job_archive_10 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                result,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                pgq._clock(),
                                10,
                                g.attempt,
                                _finish.outcome,
                                g.label,
                                _finish.result,
                                g.last_error,
                                nullif(g.partition_id, store_id),
                                case when g.partition_id <> store_id then g.log_offset end
                            from gone as g
                            where archive
                                and g.segment = 10
                        )

                        select
                            array_agg(g.job_id),
                            array_agg(row(g.*)::pgq.job) filter (
                                where (archive and g.segment <> 10)
                                or g.unique_key is not null
                                or g.ordered_key is not null
                            )
                        from gone as g
                        into ended, others;
                    else
                        with gone as (
                            delete from pgq.job as j
                            where j.job_id = any(rest)
                                and j.lease_token = _finish.lease_token
                            returning j.*
                        ),

                        archived as (
                            insert into pgq.job_archive_11 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                result,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                pgq._clock(),
                                11,
                                g.attempt,
                                _finish.outcome,
                                g.label,
                                _finish.result,
                                g.last_error,
                                nullif(g.partition_id, store_id),
                                case when g.partition_id <> store_id then g.log_offset end
                            from gone as g
                            where archive
                                and g.segment = 11
                        )

                        select
                            array_agg(g.job_id),
                            array_agg(row(g.*)::pgq.job) filter (
                                where (archive and g.segment <> 11)
                                or g.unique_key is not null
                                or g.ordered_key is not null
                            )
                        from gone as g
                        into ended, others;
                    end if;
                end if;
            else
                if leaf <= 13 then
                    if leaf <= 12 then
                        with gone as (
                            delete from pgq.job as j
                            where j.job_id = any(rest)
                                and j.lease_token = _finish.lease_token
                            returning j.*
                        ),

                        archived as (
                            insert into pgq.job_archive_12 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                result,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                pgq._clock(),
                                12,
                                g.attempt,
                                _finish.outcome,
                                g.label,
                                _finish.result,
                                g.last_error,
                                nullif(g.partition_id, store_id),
                                case when g.partition_id <> store_id then g.log_offset end
                            from gone as g
                            where archive
                                and g.segment = 12
                        )

                        select
                            array_agg(g.job_id),
                            array_agg(row(g.*)::pgq.job) filter (
                                where (archive and g.segment <> 12)
                                or g.unique_key is not null
                                or g.ordered_key is not null
                            )
                        from gone as g
                        into ended, others;
                    else
                        with gone as (
                            delete from pgq.job as j
                            where j.job_id = any(rest)
                                and j.lease_token = _finish.lease_token
                            returning j.*
                        ),

                        archived as (
                            insert into pgq.job_archive_13 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                result,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                pgq._clock(),
                                13,
                                g.attempt,
                                _finish.outcome,
                                g.label,
                                _finish.result,
                                g.last_error,
                                nullif(g.partition_id, store_id),
                                case when g.partition_id <> store_id then g.log_offset end
                            from gone as g
                            where archive
                                and g.segment = 13
                        )

                        select
                            array_agg(g.job_id),
                            array_agg(row(g.*)::pgq.job) filter (
                                where (archive and g.segment <> 13)
                                or g.unique_key is not null
                                or g.ordered_key is not null
                            )
                        from gone as g
                        into ended, others;
                    end if;
                else
                    if leaf <= 14 then
                        with gone as (
                            delete from pgq.job as j
                            where j.job_id = any(rest)
                                and j.lease_token = _finish.lease_token
                            returning j.*
                        ),

                        archived as (
                            insert into pgq.job_archive_14 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                result,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                pgq._clock(),
                                14,
                                g.attempt,
                                _finish.outcome,
                                g.label,
                                _finish.result,
                                g.last_error,
                                nullif(g.partition_id, store_id),
                                case when g.partition_id <> store_id then g.log_offset end
                            from gone as g
                            where archive
                                and g.segment = 14
                        )

                        select
                            array_agg(g.job_id),
                            array_agg(row(g.*)::pgq.job) filter (
                                where (archive and g.segment <> 14)
                                or g.unique_key is not null
                                or g.ordered_key is not null
                            )
                        from gone as g
                        into ended, others;
                    else
                        with gone as (
                            delete from pgq.job as j
                            where j.job_id = any(rest)
                                and j.lease_token = _finish.lease_token
                            returning j.*
                        ),

                        archived as (
                            insert into pgq.job_archive_15 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                result,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            select
                                g.job_id,
                                g.queue_id,
                                pgq._clock(),
                                15,
                                g.attempt,
                                _finish.outcome,
                                g.label,
                                _finish.result,
                                g.last_error,
                                nullif(g.partition_id, store_id),
                                case when g.partition_id <> store_id then g.log_offset end
                            from gone as g
                            where archive
                                and g.segment = 15
                        )

                        select
                            array_agg(g.job_id),
                            array_agg(row(g.*)::pgq.job) filter (
                                where (archive and g.segment <> 15)
                                or g.unique_key is not null
                                or g.ordered_key is not null
                            )
                        from gone as g
                        into ended, others;
                    end if;
                end if;
            end if;
        else
            execute format($leaf$
                with gone as (
                    delete from pgq.job as j
                    where j.job_id = any($1)
                        and j.lease_token = $2
                    returning j.*
                ),

                archived as (
                    insert into pgq.job_archive_%1$s (
                        job_id,
                        queue_id,
                        ended_at,
                        segment,
                        attempt,
                        outcome,
                        label,
                        result,
                        last_error,
                        partition_id,
                        log_offset
                    )
                    select
                        g.job_id,
                        g.queue_id,
                        pgq._clock(),
                        %1$s,
                        g.attempt,
                        $3,
                        g.label,
                        $4,
                        g.last_error,
                        nullif(g.partition_id, $5),
                        case when g.partition_id <> $5 then g.log_offset end
                    from gone as g
                    where $6
                        and g.segment = %1$s
                )

                select
                    array_agg(g.job_id),
                    array_agg(row(g.*)::pgq.job) filter (
                        where ($6 and g.segment <> %1$s)
                        or g.unique_key is not null
                        or g.ordered_key is not null
                    )
                from gone as g
            $leaf$, leaf)
            into ended, others
            using rest, _finish.lease_token, _finish.outcome, _finish.result, store_id, archive;
        end if;

        if others is not null then
            -- By way of the parent, which locks the leaves that get a row and no others.
            insert into pgq.job_archive (
                job_id,
                queue_id,
                ended_at,
                segment,
                attempt,
                outcome,
                label,
                result,
                last_error,
                partition_id,
                log_offset
            )
            select
                o.job_id,
                o.queue_id,
                pgq._clock(),
                o.segment,
                o.attempt,
                _finish.outcome,
                o.label,
                _finish.result,
                o.last_error,
                nullif(o.partition_id, store_id),
                case when o.partition_id <> store_id then o.log_offset end
            from unnest(others) as o
            where archive
                and o.segment <> leaf;

            perform pgq._free_keys(array(
                select row(o.job_id, o.queue_id, o.unique_key, o.ordered_key)::pgq._ended_job
                from unnest(others) as o
                where o.unique_key is not null
                    or o.ordered_key is not null
            ));
        end if;

        return query
        select unnest(ended);

        -- What was not found may have been replaced by a new row while this statement waited.
        exit when cardinality(ended) = cardinality(rest);
        rest := array(
            select unnest(rest)
            except
            select unnest(ended)
        );
    end loop;
end
$$;

create or replace function pgq.finish_and_claim(
    queue text,
    job_ids bigint[] default null,
    lease_token uuid default null,
    max_jobs integer default 1,
    lease interval default null,
    label text default null
)
returns setof pgq.claimed_job
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    target_id bigint;
    keep interval;
    most_attempts integer;
    first_time timestamptz;
    first_id bigint;
    token uuid;
    moment timestamptz;
    usual boolean;
    archives boolean;
    own_store_id bigint;
    fresh boolean;
    number bigint;
    store_id bigint;
    store_offset bigint;
    ends_at timestamptz;
    leaf integer;
    delivery integer;
    job_label text;
    job_error text;
    was_leased boolean;
    keep_until timestamptz;
    job_key text;
    job_attempts integer;
    special boolean;
    finished_queue_id bigint;
    finished_leaf integer;
    finished_attempt integer;
    finished_label text;
    finished_error text;
    finished_store_id bigint;
    finished_store_offset bigint;
begin
    if finish_and_claim.lease is not null then
        perform pgq._check_interval('lease', finish_and_claim.lease, false);
    end if;

    -- The usual case: one job of priority 0. _claim_jobs knows the others. Few conditions, no joins
    -- and no arrays, since each of them takes time.
    select
        q.queue_id,
        coalesce(finish_and_claim.lease, q.lease),
        coalesce(q.max_attempts, 2147483647),
        gen_random_uuid(),
        pgq._clock(),
        coalesce(finish_and_claim.max_jobs, 1) = 1
        and finish_and_claim.label is null
        and not q.paused
        and not q.ordered
        and q.max_leased is null
        and q.rate_limit is null
        and not q.subscribed,
        q.archive,
        q.partition_id
    into target_id, keep, most_attempts, token, moment, usual, archives, own_store_id
    from pgq.queue as q
    where q.queue = finish_and_claim.queue collate "C";

    if cardinality(finish_and_claim.job_ids) = 1 then
        -- Not one that has a unique or an ordered key, of which _finish knows.
        delete from pgq.job as j
        where j.job_id = finish_and_claim.job_ids[1]
            and j.lease_token = finish_and_claim.lease_token
            and j.unique_key is null
            and j.ordered_key is null
        returning
            j.queue_id,
            j.segment,
            j.attempt,
            j.label,
            j.last_error,
            j.partition_id,
            j.log_offset
        into
            finished_queue_id,
            finished_leaf,
            finished_attempt,
            finished_label,
            finished_error,
            finished_store_id,
            finished_store_offset;

        if finished_queue_id is distinct from target_id then
            if finished_queue_id is null then
                perform pgq._finish_all(finish_and_claim.job_ids, finish_and_claim.lease_token);
                archives := false;
            else
                select q.archive, q.partition_id
                into archives, own_store_id
                from pgq.queue as q
                where q.queue_id = finished_queue_id;
            end if;
        end if;

        if archives then
            if finished_leaf = 0 then
                insert into pgq.job_archive_0 (
                    job_id,
                    queue_id,
                    ended_at,
                    segment,
                    attempt,
                    outcome,
                    label,
                    last_error,
                    partition_id,
                    log_offset
                )
                values (
                    finish_and_claim.job_ids[1],
                    finished_queue_id,
                    pgq._clock(),
                    0,
                    finished_attempt,
                    'acked',
                    finished_label,
                    finished_error,
                    nullif(finished_store_id, own_store_id),
                    case when finished_store_id <> own_store_id then finished_store_offset end
                );
            elsif finished_leaf = 1 then
                insert into pgq.job_archive_1 (
                    job_id,
                    queue_id,
                    ended_at,
                    segment,
                    attempt,
                    outcome,
                    label,
                    last_error,
                    partition_id,
                    log_offset
                )
                values (
                    finish_and_claim.job_ids[1],
                    finished_queue_id,
                    pgq._clock(),
                    1,
                    finished_attempt,
                    'acked',
                    finished_label,
                    finished_error,
                    nullif(finished_store_id, own_store_id),
                    case when finished_store_id <> own_store_id then finished_store_offset end
                );
            elsif finished_leaf <= 3 then
                if finished_leaf <= 2 then
                    insert into pgq.job_archive_2 (
                        job_id,
                        queue_id,
                        ended_at,
                        segment,
                        attempt,
                        outcome,
                        label,
                        last_error,
                        partition_id,
                        log_offset
                    )
                    values (
                        finish_and_claim.job_ids[1],
                        finished_queue_id,
                        pgq._clock(),
                        2,
                        finished_attempt,
                        'acked',
                        finished_label,
                        finished_error,
                        nullif(finished_store_id, own_store_id),
                        case when finished_store_id <> own_store_id then finished_store_offset end
                    );
                else
                    insert into pgq.job_archive_3 (
                        job_id,
                        queue_id,
                        ended_at,
                        segment,
                        attempt,
                        outcome,
                        label,
                        last_error,
                        partition_id,
                        log_offset
                    )
                    values (
                        finish_and_claim.job_ids[1],
                        finished_queue_id,
                        pgq._clock(),
                        3,
                        finished_attempt,
                        'acked',
                        finished_label,
                        finished_error,
                        nullif(finished_store_id, own_store_id),
                        case when finished_store_id <> own_store_id then finished_store_offset end
                    );
                end if;
            elsif finished_leaf <= 7 then
                if finished_leaf <= 5 then
                    if finished_leaf <= 4 then
                        insert into pgq.job_archive_4 (
                            job_id,
                            queue_id,
                            ended_at,
                            segment,
                            attempt,
                            outcome,
                            label,
                            last_error,
                            partition_id,
                            log_offset
                        )
                        values (
                            finish_and_claim.job_ids[1],
                            finished_queue_id,
                            pgq._clock(),
                            4,
                            finished_attempt,
                            'acked',
                            finished_label,
                            finished_error,
                            nullif(finished_store_id, own_store_id),
                            case when finished_store_id <> own_store_id then finished_store_offset end
                        );
                    else
                        insert into pgq.job_archive_5 (
                            job_id,
                            queue_id,
                            ended_at,
                            segment,
                            attempt,
                            outcome,
                            label,
                            last_error,
                            partition_id,
                            log_offset
                        )
                        values (
                            finish_and_claim.job_ids[1],
                            finished_queue_id,
                            pgq._clock(),
                            5,
                            finished_attempt,
                            'acked',
                            finished_label,
                            finished_error,
                            nullif(finished_store_id, own_store_id),
                            case when finished_store_id <> own_store_id then finished_store_offset end
                        );
                    end if;
                else
                    if finished_leaf <= 6 then
                        insert into pgq.job_archive_6 (
                            job_id,
                            queue_id,
                            ended_at,
                            segment,
                            attempt,
                            outcome,
                            label,
                            last_error,
                            partition_id,
                            log_offset
                        )
                        values (
                            finish_and_claim.job_ids[1],
                            finished_queue_id,
                            pgq._clock(),
                            6,
                            finished_attempt,
                            'acked',
                            finished_label,
                            finished_error,
                            nullif(finished_store_id, own_store_id),
                            case when finished_store_id <> own_store_id then finished_store_offset end
                        );
                    else
                        insert into pgq.job_archive_7 (
                            job_id,
                            queue_id,
                            ended_at,
                            segment,
                            attempt,
                            outcome,
                            label,
                            last_error,
                            partition_id,
                            log_offset
                        )
                        values (
                            finish_and_claim.job_ids[1],
                            finished_queue_id,
                            pgq._clock(),
                            7,
                            finished_attempt,
                            'acked',
                            finished_label,
                            finished_error,
                            nullif(finished_store_id, own_store_id),
                            case when finished_store_id <> own_store_id then finished_store_offset end
                        );
                    end if;
                end if;
            elsif finished_leaf <= 15 then
                if finished_leaf <= 11 then
                    if finished_leaf <= 9 then
                        if finished_leaf <= 8 then
                            insert into pgq.job_archive_8 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                finish_and_claim.job_ids[1],
                                finished_queue_id,
                                pgq._clock(),
                                8,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        else
                            insert into pgq.job_archive_9 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                finish_and_claim.job_ids[1],
                                finished_queue_id,
                                pgq._clock(),
                                9,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        end if;
                    else
                        if finished_leaf <= 10 then
                            insert into pgq.job_archive_10 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                finish_and_claim.job_ids[1],
                                finished_queue_id,
                                pgq._clock(),
                                10,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        else
                            insert into pgq.job_archive_11 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                finish_and_claim.job_ids[1],
                                finished_queue_id,
                                pgq._clock(),
                                11,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        end if;
                    end if;
                else
                    if finished_leaf <= 13 then
                        if finished_leaf <= 12 then
                            insert into pgq.job_archive_12 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                finish_and_claim.job_ids[1],
                                finished_queue_id,
                                pgq._clock(),
                                12,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        else
                            insert into pgq.job_archive_13 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                finish_and_claim.job_ids[1],
                                finished_queue_id,
                                pgq._clock(),
                                13,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        end if;
                    else
                        if finished_leaf <= 14 then
                            insert into pgq.job_archive_14 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                finish_and_claim.job_ids[1],
                                finished_queue_id,
                                pgq._clock(),
                                14,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        else
                            insert into pgq.job_archive_15 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                finish_and_claim.job_ids[1],
                                finished_queue_id,
                                pgq._clock(),
                                15,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        end if;
                    end if;
                end if;
            else
                execute format($leaf$
                    insert into pgq.job_archive_%1$s (
                        job_id,
                        queue_id,
                        ended_at,
                        segment,
                        attempt,
                        outcome,
                        label,
                        last_error,
                        partition_id,
                        log_offset
                    )
                    values (
                        $1,
                        $2,
                        pgq._clock(),
                        %1$s,
                        $3,
                        'acked',
                        $4,
                        $5,
                        nullif($6, $7),
                        case when $6 <> $7 then $8 end
                    )
                $leaf$, finished_leaf)
                using finish_and_claim.job_ids[1], finished_queue_id, finished_attempt, finished_label, finished_error, finished_store_id, own_store_id, finished_store_offset;
            end if;
        end if;
    elsif cardinality(finish_and_claim.job_ids) > 1 then
        perform pgq._finish_all(finish_and_claim.job_ids, finish_and_claim.lease_token);
    end if;

    if usual then
        select
            f.floor_times[1],
            f.floor_ids[1],
            f.recorded_at between moment - interval '20 milliseconds' and moment
        into first_time, first_id, fresh
        from pgq.queue_floor as f
        where f.queue_id = target_id
            and f.label = ''
        order by f.seq desc
        limit 1;

        -- By its place, which takes less time than by its id. A row that cleanup has moved to another
        -- place since is not found; _claim_jobs then finds it. The clock is read behind the lock: by
        -- then this transaction has its id, on which the floor relies.
        delete from pgq.job as j
        where j.ctid = (
            select k.ctid
            from pgq.job as k
            where k.queue_id = target_id
                and k.priority = 0
                and (k.visible_at, k.job_id) >= (first_time, first_id)
                and k.visible_at <= moment
                and (k.expires_at is null or k.expires_at > moment)
            order by k.visible_at, k.job_id
            limit 1
            for update skip locked
        )
        returning
            j.job_id,
            j.partition_id,
            j.log_offset,
            j.expires_at,
            j.segment,
            j.attempt + 1,
            j.label,
            j.last_error,
            j.lease_token is not null,
            pgq._clock() + keep,
            j.unique_key,
            j.max_attempts,
            not fresh
            or j.unique_key is not null
            or j.attempt >= coalesce(j.max_attempts, most_attempts)
        into
            number,
            store_id,
            store_offset,
            ends_at,
            leaf,
            delivery,
            job_label,
            job_error,
            was_leased,
            keep_until,
            job_key,
            job_attempts,
            special;

        if found then
            insert into pgq.job (
                job_id,
                queue_id,
                partition_id,
                log_offset,
                expires_at,
                visible_at,
                segment,
                attempt,
                priority,
                last_attempt,
                lease_token,
                label,
                last_error,
                unique_key,
                max_attempts
            )
            values (
                number,
                target_id,
                store_id,
                store_offset,
                ends_at,
                keep_until,
                leaf,
                delivery,
                0,
                delivery >= coalesce(job_attempts, most_attempts),
                token,
                job_label,
                job_error,
                job_key,
                job_attempts
            );

            if special then
                if delivery > coalesce(job_attempts, most_attempts) then
                    perform pgq._bury(array[number], 1, was_leased, null);

                    return query
                    select c.*
                    from pgq._claim_jobs(
                        finish_and_claim.queue collate "C",
                        1,
                        0,
                        finish_and_claim.lease,
                        finish_and_claim.label,
                        true
                    ) as c;
                    return;
                end if;

                if job_key is not null then
                    perform pgq._free_claimed(array[number]);
                end if;
                if not fresh then
                    perform pgq._raise_floor(target_id, moment);
                end if;
            end if;

            if leaf = 0 then
                return query
                select
                    number,
                    token,
                    delivery,
                    keep_until,
                    m.published_at,
                    0,
                    m.key,
                    job_label,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_0 as m
                where m.partition_id = store_id
                    and m.log_offset = store_offset;
            elsif leaf = 1 then
                return query
                select
                    number,
                    token,
                    delivery,
                    keep_until,
                    m.published_at,
                    0,
                    m.key,
                    job_label,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_1 as m
                where m.partition_id = store_id
                    and m.log_offset = store_offset;
            elsif leaf <= 3 then
                if leaf <= 2 then
                    return query
                    select
                        number,
                        token,
                        delivery,
                        keep_until,
                        m.published_at,
                        0,
                        m.key,
                        job_label,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_2 as m
                    where m.partition_id = store_id
                        and m.log_offset = store_offset;
                else
                    return query
                    select
                        number,
                        token,
                        delivery,
                        keep_until,
                        m.published_at,
                        0,
                        m.key,
                        job_label,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_3 as m
                    where m.partition_id = store_id
                        and m.log_offset = store_offset;
                end if;
            elsif leaf <= 7 then
                if leaf <= 5 then
                    if leaf <= 4 then
                        return query
                        select
                            number,
                            token,
                            delivery,
                            keep_until,
                            m.published_at,
                            0,
                            m.key,
                            job_label,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_4 as m
                        where m.partition_id = store_id
                            and m.log_offset = store_offset;
                    else
                        return query
                        select
                            number,
                            token,
                            delivery,
                            keep_until,
                            m.published_at,
                            0,
                            m.key,
                            job_label,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_5 as m
                        where m.partition_id = store_id
                            and m.log_offset = store_offset;
                    end if;
                else
                    if leaf <= 6 then
                        return query
                        select
                            number,
                            token,
                            delivery,
                            keep_until,
                            m.published_at,
                            0,
                            m.key,
                            job_label,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_6 as m
                        where m.partition_id = store_id
                            and m.log_offset = store_offset;
                    else
                        return query
                        select
                            number,
                            token,
                            delivery,
                            keep_until,
                            m.published_at,
                            0,
                            m.key,
                            job_label,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_7 as m
                        where m.partition_id = store_id
                            and m.log_offset = store_offset;
                    end if;
                end if;
            elsif leaf <= 15 then
                if leaf <= 11 then
                    if leaf <= 9 then
                        if leaf <= 8 then
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_8 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        else
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_9 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        end if;
                    else
                        if leaf <= 10 then
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_10 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        else
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_11 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        end if;
                    end if;
                else
                    if leaf <= 13 then
                        if leaf <= 12 then
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_12 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        else
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_13 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        end if;
                    else
                        if leaf <= 14 then
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_14 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        else
                            return query
                            select
                                number,
                                token,
                                delivery,
                                keep_until,
                                m.published_at,
                                0,
                                m.key,
                                job_label,
                                m.headers,
                                m.payload,
                                m.body
                            from pgq.message_15 as m
                            where m.partition_id = store_id
                                and m.log_offset = store_offset;
                        end if;
                    end if;
                end if;
            else
                return query execute format($leaf$
                    select
                        $1,
                        $2,
                        $3,
                        $4,
                        m.published_at,
                        0,
                        m.key,
                        $5,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_%1$s as m
                    where m.partition_id = $6
                        and m.log_offset = $7
                $leaf$, leaf)
                using number, token, delivery, keep_until, job_label, store_id, store_offset;
            end if;
            if not found then
                -- It is leased, so it is returned, whatever happened to its message.
                return query
                select
                    number,
                    token,
                    delivery,
                    keep_until,
                    null::timestamptz,
                    0,
                    null::text,
                    job_label,
                    null::jsonb,
                    null::jsonb,
                    null::bytea;
            end if;
            return;
        end if;
    end if;

    return query
    select c.*
    from pgq._claim_jobs(
        finish_and_claim.queue collate "C",
        coalesce(finish_and_claim.max_jobs,1),
        0,
        finish_and_claim.lease,
        finish_and_claim.label,
        false
    ) as c;
end
$$;

comment on function pgq.finish_and_claim(text, bigint[], uuid, integer, interval, text) is
'Finishes the jobs of a worker and leases it the next ones; MQ006 when it does not hold them.
It is one call and one transaction. job_ids with their lease_token are finished as by ack_batch;
null or an empty array: nothing is. They may be of another queue. Then up to max_jobs (0 to 100000)
jobs are leased and returned as by claim_job; 0: none. A paused queue hands out nothing, but what is
done is finished. In a queue with max_leased, what is finished makes room for what is leased.
Errors: MQ002 unknown queue, MQ006 one of job_ids is not held under lease_token any more (nothing
was finished or claimed; use ack_batch and claim_job), 22004 a required argument is null, job_ids
are without lease_token, or a null is in them, 22023 bad max_jobs or lease, 40001 above READ
COMMITTED when another transaction was first (try again).';

create or replace function pgq.ack(job_id bigint, lease_token uuid)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    finished_queue_id bigint;
    finished_leaf integer;
    finished_attempt integer;
    finished_label text;
    finished_error text;
    finished_store_id bigint;
    finished_store_offset bigint;
    archives boolean;
    own_store_id bigint;
begin
    -- What _finish does for many, in plain statements: for one job they take less time.
    -- Not one that has a unique or an ordered key, of which _finish knows.
    delete from pgq.job as j
    where j.job_id = ack.job_id
        and j.lease_token = ack.lease_token
        and j.unique_key is null
        and j.ordered_key is null
    returning
        j.queue_id,
        j.segment,
        j.attempt,
        j.label,
        j.last_error,
        j.partition_id,
        j.log_offset
    into
        finished_queue_id,
        finished_leaf,
        finished_attempt,
        finished_label,
        finished_error,
        finished_store_id,
        finished_store_offset;

    if found then
        select q.archive, q.partition_id
        into archives, own_store_id
        from pgq.queue as q
        where q.queue_id = finished_queue_id;

        if archives then
            if finished_leaf = 0 then
                insert into pgq.job_archive_0 (
                    job_id,
                    queue_id,
                    ended_at,
                    segment,
                    attempt,
                    outcome,
                    label,
                    last_error,
                    partition_id,
                    log_offset
                )
                values (
                    ack.job_id,
                    finished_queue_id,
                    pgq._clock(),
                    0,
                    finished_attempt,
                    'acked',
                    finished_label,
                    finished_error,
                    nullif(finished_store_id, own_store_id),
                    case when finished_store_id <> own_store_id then finished_store_offset end
                );
            elsif finished_leaf = 1 then
                insert into pgq.job_archive_1 (
                    job_id,
                    queue_id,
                    ended_at,
                    segment,
                    attempt,
                    outcome,
                    label,
                    last_error,
                    partition_id,
                    log_offset
                )
                values (
                    ack.job_id,
                    finished_queue_id,
                    pgq._clock(),
                    1,
                    finished_attempt,
                    'acked',
                    finished_label,
                    finished_error,
                    nullif(finished_store_id, own_store_id),
                    case when finished_store_id <> own_store_id then finished_store_offset end
                );
            elsif finished_leaf <= 3 then
                if finished_leaf <= 2 then
                    insert into pgq.job_archive_2 (
                        job_id,
                        queue_id,
                        ended_at,
                        segment,
                        attempt,
                        outcome,
                        label,
                        last_error,
                        partition_id,
                        log_offset
                    )
                    values (
                        ack.job_id,
                        finished_queue_id,
                        pgq._clock(),
                        2,
                        finished_attempt,
                        'acked',
                        finished_label,
                        finished_error,
                        nullif(finished_store_id, own_store_id),
                        case when finished_store_id <> own_store_id then finished_store_offset end
                    );
                else
                    insert into pgq.job_archive_3 (
                        job_id,
                        queue_id,
                        ended_at,
                        segment,
                        attempt,
                        outcome,
                        label,
                        last_error,
                        partition_id,
                        log_offset
                    )
                    values (
                        ack.job_id,
                        finished_queue_id,
                        pgq._clock(),
                        3,
                        finished_attempt,
                        'acked',
                        finished_label,
                        finished_error,
                        nullif(finished_store_id, own_store_id),
                        case when finished_store_id <> own_store_id then finished_store_offset end
                    );
                end if;
            elsif finished_leaf <= 7 then
                if finished_leaf <= 5 then
                    if finished_leaf <= 4 then
                        insert into pgq.job_archive_4 (
                            job_id,
                            queue_id,
                            ended_at,
                            segment,
                            attempt,
                            outcome,
                            label,
                            last_error,
                            partition_id,
                            log_offset
                        )
                        values (
                            ack.job_id,
                            finished_queue_id,
                            pgq._clock(),
                            4,
                            finished_attempt,
                            'acked',
                            finished_label,
                            finished_error,
                            nullif(finished_store_id, own_store_id),
                            case when finished_store_id <> own_store_id then finished_store_offset end
                        );
                    else
                        insert into pgq.job_archive_5 (
                            job_id,
                            queue_id,
                            ended_at,
                            segment,
                            attempt,
                            outcome,
                            label,
                            last_error,
                            partition_id,
                            log_offset
                        )
                        values (
                            ack.job_id,
                            finished_queue_id,
                            pgq._clock(),
                            5,
                            finished_attempt,
                            'acked',
                            finished_label,
                            finished_error,
                            nullif(finished_store_id, own_store_id),
                            case when finished_store_id <> own_store_id then finished_store_offset end
                        );
                    end if;
                else
                    if finished_leaf <= 6 then
                        insert into pgq.job_archive_6 (
                            job_id,
                            queue_id,
                            ended_at,
                            segment,
                            attempt,
                            outcome,
                            label,
                            last_error,
                            partition_id,
                            log_offset
                        )
                        values (
                            ack.job_id,
                            finished_queue_id,
                            pgq._clock(),
                            6,
                            finished_attempt,
                            'acked',
                            finished_label,
                            finished_error,
                            nullif(finished_store_id, own_store_id),
                            case when finished_store_id <> own_store_id then finished_store_offset end
                        );
                    else
                        insert into pgq.job_archive_7 (
                            job_id,
                            queue_id,
                            ended_at,
                            segment,
                            attempt,
                            outcome,
                            label,
                            last_error,
                            partition_id,
                            log_offset
                        )
                        values (
                            ack.job_id,
                            finished_queue_id,
                            pgq._clock(),
                            7,
                            finished_attempt,
                            'acked',
                            finished_label,
                            finished_error,
                            nullif(finished_store_id, own_store_id),
                            case when finished_store_id <> own_store_id then finished_store_offset end
                        );
                    end if;
                end if;
            elsif finished_leaf <= 15 then
                if finished_leaf <= 11 then
                    if finished_leaf <= 9 then
                        if finished_leaf <= 8 then
                            insert into pgq.job_archive_8 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                ack.job_id,
                                finished_queue_id,
                                pgq._clock(),
                                8,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        else
                            insert into pgq.job_archive_9 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                ack.job_id,
                                finished_queue_id,
                                pgq._clock(),
                                9,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        end if;
                    else
                        if finished_leaf <= 10 then
                            insert into pgq.job_archive_10 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                ack.job_id,
                                finished_queue_id,
                                pgq._clock(),
                                10,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        else
                            insert into pgq.job_archive_11 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                ack.job_id,
                                finished_queue_id,
                                pgq._clock(),
                                11,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        end if;
                    end if;
                else
                    if finished_leaf <= 13 then
                        if finished_leaf <= 12 then
                            insert into pgq.job_archive_12 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                ack.job_id,
                                finished_queue_id,
                                pgq._clock(),
                                12,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        else
                            insert into pgq.job_archive_13 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                ack.job_id,
                                finished_queue_id,
                                pgq._clock(),
                                13,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        end if;
                    else
                        if finished_leaf <= 14 then
                            insert into pgq.job_archive_14 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                ack.job_id,
                                finished_queue_id,
                                pgq._clock(),
                                14,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        else
                            insert into pgq.job_archive_15 (
                                job_id,
                                queue_id,
                                ended_at,
                                segment,
                                attempt,
                                outcome,
                                label,
                                last_error,
                                partition_id,
                                log_offset
                            )
                            values (
                                ack.job_id,
                                finished_queue_id,
                                pgq._clock(),
                                15,
                                finished_attempt,
                                'acked',
                                finished_label,
                                finished_error,
                                nullif(finished_store_id, own_store_id),
                                case when finished_store_id <> own_store_id then finished_store_offset end
                            );
                        end if;
                    end if;
                end if;
            else
                execute format($leaf$
                    insert into pgq.job_archive_%1$s (
                        job_id,
                        queue_id,
                        ended_at,
                        segment,
                        attempt,
                        outcome,
                        label,
                        last_error,
                        partition_id,
                        log_offset
                    )
                    values (
                        $1,
                        $2,
                        pgq._clock(),
                        %1$s,
                        $3,
                        'acked',
                        $4,
                        $5,
                        nullif($6, $7),
                        case when $6 <> $7 then $8 end
                    )
                $leaf$, finished_leaf)
                using ack.job_id, finished_queue_id, finished_attempt, finished_label, finished_error, finished_store_id, own_store_id, finished_store_offset;
            end if;
        end if;
        return true;
    end if;

    -- Not found may mean that the job has a unique or an ordered key, or that the row was replaced
    -- by a new one while this statement waited: by a heartbeat of the same worker, say. _finish
    -- looks again.
    perform pgq._check_lease(ack.job_id, ack.lease_token);
    return exists (
        select
        from pgq._finish(array[ack.job_id], ack.lease_token, 'acked', null, false)
    );
end
$$;

create function pgq._return_keys(job_ids bigint[])
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    wish record;
begin
    for wish in
        select j.job_id, j.queue_id, j.unique_key
        from pgq.job as j
        where j.job_id = any(_return_keys.job_ids)
        order by j.unique_key, j.job_id
    loop
        continue when pgq._take_key(
            wish.queue_id, wish.unique_key, wish.job_id, false
        ) = wish.job_id;

        -- Nobody else sees the row yet.
        update pgq.job as j
        set unique_key = null
        where j.job_id = wish.job_id;
    end loop;
end
$$;

revoke all on function pgq._return_keys from public;

comment on function pgq._return_keys(bigint[]) is
'Gives jobs that wait again the unique keys that a claim took from them; those whose key another job
has by now go on without one. The caller has written their rows.';

create function pgq._nack(
    job_ids bigint[],
    lease_token uuid,
    delay interval,
    error text,
    uncounted integer
)
returns setof bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    rest bigint[] := _nack.job_ids;
    returned bigint[];
    exhausted bigint[];
    keyed bigint[];
begin
    if _nack.delay is not null then
        perform pgq._check_interval('delay', _nack.delay, true);
    end if;

    -- The transaction id first, then the clock: the floor relies on it.
    if pg_current_xact_id() is null then
        return;
    end if;

    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        -- An old snapshot may name a limit of attempts that was lowered since, and cleanup has
        -- marked what had as many; the lock then raises 40001.
        perform
        from pgq.queue as q
        where q.queue_id = any(array(
            select j.queue_id
            from pgq.job as j
            where j.job_id = any(rest)
                and j.lease_token = _nack.lease_token
            limit 1
        ))
        for share;
    end if;

    while cardinality(rest) > 0 loop
        -- Deleted and inserted again, as by a claim. Not joined with the queue: an old plan might
        -- walk all its jobs.
        with gone as (
            delete from pgq.job as j
            where j.job_id = any(rest)
                and j.lease_token = _nack.lease_token
            returning j.*
        ),

        given_back as (
            insert into pgq.job (
                job_id,
                queue_id,
                partition_id,
                log_offset,
                expires_at,
                visible_at,
                segment,
                attempt,
                priority,
                label,
                last_error,
                unique_key,
                max_attempts,
                ordered_key
            )
            select
                g.job_id,
                g.queue_id,
                g.partition_id,
                g.log_offset,
                g.expires_at,
                pgq._clock() + coalesce(
                    _nack.delay,
                    (
                        select
                            pgq._retry_delay(
                                g.attempt, q.backoff, q.backoff_max, q.backoff_jitter
                            )
                        from pgq.queue as q
                        where q.queue_id = g.queue_id
                    ),
                    interval '0'
                ),
                g.segment,
                g.attempt - _nack.uncounted,
                g.priority,
                g.label,
                coalesce(_nack.error, g.last_error),
                g.unique_key,
                g.max_attempts,
                g.ordered_key
            from gone as g
            returning
                job_id,
                unique_key,
                attempt >= coalesce(
                    max_attempts,
                    (select q.max_attempts from pgq.queue as q where q.queue_id = job.queue_id)
                ) as exhausted
        )

        select
            array_agg(b.job_id),
            array_agg(b.job_id) filter (where b.exhausted),
            array_agg(b.job_id) filter (
                where b.unique_key is not null and b.exhausted is not true
            )
        into returned, exhausted, keyed
        from given_back as b;

        if exhausted is not null then
            perform pgq._bury(exhausted, 0, false, null);
        end if;
        if keyed is not null then
            perform pgq._return_keys(keyed);
        end if;

        return query
        select unnest(returned);

        -- What was not found may have been replaced by a new row while this statement waited.
        exit when cardinality(returned) = cardinality(rest);
        rest := array(
            select unnest(rest)
            except
            select unnest(returned)
        );
        exit when cardinality(rest) = 0 or not pgq._still_leased(rest, _nack.lease_token);
    end loop;
end
$$;

revoke all on function pgq._nack from public;

comment on function pgq._nack(bigint[], uuid, interval, text, integer) is
'Gives jobs whose lease token is current back to their queue, or to the dead ones when their
attempts are used up, and returns their ids. uncounted: 1 where this attempt does not count.';

create or replace function pgq.nack(
    job_id bigint,
    lease_token uuid,
    delay interval default null,
    error text default null
)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    perform pgq._check_lease(nack.job_id, nack.lease_token);

    return exists (
        select
        from pgq._nack(
            array[nack.job_id], nack.lease_token, nack.delay, nack.error collate "C", 0
        )
    );
end
$$;

create or replace function pgq.nack_batch(
    job_ids bigint[],
    lease_token uuid,
    delay interval default null,
    error text default null
)
returns table (job_id bigint)
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    perform pgq._check_leases(nack_batch.job_ids, nack_batch.lease_token);

    return query
    select n
    from pgq._nack(
        nack_batch.job_ids,
        nack_batch.lease_token,
        nack_batch.delay,
        nack_batch.error collate "C",
        0
    ) as n;
end
$$;

create function pgq.release_job(job_id bigint, lease_token uuid)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    perform pgq._check_lease(release_job.job_id, release_job.lease_token);

    return exists (
        select
        from pgq._nack(
            array[release_job.job_id], release_job.lease_token, interval '0', null, 1
        )
    );
end
$$;

revoke all on function pgq.release_job from public;

comment on function pgq.release_job(bigint, uuid) is
'Gives a job back unused; false when the caller does not hold it any more.
It is for a worker that stops before it has begun: the job is due at once, this attempt does not
count, and its last error stays. A job that failed is given back by nack. False, and nothing
changed: the token is not that of the latest claim, or the job is finished already. A lease that
has run out still counts as long as no other worker got the job.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again).';

create function pgq.release_job_batch(job_ids bigint[], lease_token uuid)
returns table (job_id bigint)
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    perform pgq._check_leases(release_job_batch.job_ids, release_job_batch.lease_token);

    return query
    select n
    from pgq._nack(
        release_job_batch.job_ids, release_job_batch.lease_token, interval '0', null, 1
    ) as n;
end
$$;

revoke all on function pgq.release_job_batch from public;

comment on function pgq.release_job_batch(bigint[], uuid) is
'Gives jobs of one claim back unused, and returns the ids of those given back; see release_job.
An id that is missing in the answer was not this worker''s any more.
Errors: 22004 a required argument is null, or a null is in job_ids, 22023 job_ids of several
dimensions, 40001 above READ COMMITTED when another transaction was first (try again).';

create function pgq.reject_job(job_id bigint, lease_token uuid, error text default null)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    held pgq.job;
begin
    perform pgq._check_lease(reject_job.job_id, reject_job.lease_token);

    held := pgq._lock_leased(reject_job.job_id, reject_job.lease_token);
    if held.job_id is null then
        return false;
    end if;

    perform pgq._bury(array[reject_job.job_id], 0, false, reject_job.error collate "C");
    return true;
end
$$;

revoke all on function pgq.reject_job from public;

comment on function pgq.reject_job(bigint, uuid, text) is
'Makes a job a dead letter now; false when the caller does not hold it any more.
It is for a job that no attempt can do, whatever attempts it has left. error: what is wrong with it;
null: the error of the last nack stays. redrive puts it back. False, and nothing changed: the token
is not that of the latest claim, or the job is finished already. A lease that has run out still
counts as long as no other worker got the job.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again).';

create function pgq.cancel_job(job_id bigint)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    gone pgq.job;
begin
    if cancel_job.job_id is null then
        raise exception 'argument "job_id" must not be null'
            using errcode = '22004';
    end if;

    -- What is not found may have been replaced by a new row while this statement waited. Above READ
    -- COMMITTED that it is not there has to be proved.
    loop
        delete from pgq.job as j
        where j.job_id = cancel_job.job_id
        returning j.*
        into gone;

        exit when found;
        perform pgq._still_leased(array[cancel_job.job_id], null);
        if not exists (select from pgq.job as j where j.job_id = cancel_job.job_id) then
            return false;
        end if;
    end loop;

    -- By way of the parent, which locks the leaf that gets the row and no others.
    insert into pgq.job_archive (
        job_id,
        queue_id,
        ended_at,
        segment,
        attempt,
        outcome,
        label,
        last_error,
        partition_id,
        log_offset
    )
    select
        gone.job_id,
        gone.queue_id,
        pgq._clock(),
        gone.segment,
        gone.attempt,
        'cancelled',
        gone.label,
        gone.last_error,
        nullif(gone.partition_id, q.partition_id),
        case when gone.partition_id <> q.partition_id then gone.log_offset end
    from pgq.queue as q
    where q.queue_id = gone.queue_id
        and q.archive;

    if gone.due_at is not null then
        -- It waited for another one of its key.
        gone.ordered_key := null;
    end if;
    if gone.unique_key is not null or gone.ordered_key is not null then
        perform pgq._free_keys(array[
            row(gone.job_id, gone.queue_id, gone.unique_key, gone.ordered_key)::pgq._ended_job
        ]);
    end if;
    return true;
end
$$;

revoke all on function pgq.cancel_job from public;

comment on function pgq.cancel_job(bigint) is
'Cancels a job that is not finished; false when there is none of this id.
Nobody gets it any more. A worker that has it learns so by its next extend_lease, ack, nack or
archive_job, which is false then; what it has done by then it has done. The queue notes it among the
archived jobs with the outcome cancelled, unless its archive setting is off. False: it is finished,
cancelled or expired already, or a dead letter, or was never there. It may wait for the transaction
that has the row of the job: of a worker that claims it or finishes it.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again).';

create function pgq.get_job(job_id bigint)
returns setof pgq.job_info
language plpgsql
stable
parallel safe
rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    held pgq.job;
    info pgq.job_info;
    moment timestamptz := pgq._clock();
begin
    if get_job.job_id is null then
        raise exception 'argument "job_id" must not be null'
            using errcode = '22004';
    end if;

    select j.*
    into held
    from pgq.job as j
    where j.job_id = get_job.job_id;

    if found then
        info.expires_at := held.expires_at;
        if held.lease_token is not null and held.visible_at > moment then
            info.state := 'leased';
            info.leased_until := held.visible_at;
        else
            info.state := case
                when held.expires_at <= moment then 'expired'
                when held.due_at is not null then 'waiting'
                when held.visible_at <= moment then 'ready'
                else 'delayed'
            end;
            info.due_at := coalesce(held.due_at, held.visible_at);
        end if;
    else
        select
            d.job_id,
            d.queue_id,
            d.partition_id,
            d.log_offset,
            d.segment,
            d.priority,
            d.attempt,
            d.label,
            d.last_error,
            d.unique_key,
            d.max_attempts,
            d.died_at,
            'dead'
        into
            held.job_id,
            held.queue_id,
            held.partition_id,
            held.log_offset,
            held.segment,
            held.priority,
            held.attempt,
            held.label,
            held.last_error,
            held.unique_key,
            held.max_attempts,
            info.died_at,
            info.state
        from pgq.dead_job as d
        where d.job_id = get_job.job_id;
    end if;

    select q.queue, coalesce(held.max_attempts, q.max_attempts)
    into info.queue, info.max_attempts
    from pgq.queue as q
    where q.queue_id = held.queue_id;

    -- Of a queue that was dropped there are no jobs.
    if info.queue is null then
        return;
    end if;

    if held.segment = 0 then
        select m.published_at, m.key, m.headers, m.payload, m.body
        from pgq.message_0 as m
        where m.partition_id = held.partition_id
            and m.log_offset = held.log_offset
        into info.enqueued_at, info.key, info.headers, info.payload, info.body;
    elsif held.segment = 1 then
        select m.published_at, m.key, m.headers, m.payload, m.body
        from pgq.message_1 as m
        where m.partition_id = held.partition_id
            and m.log_offset = held.log_offset
        into info.enqueued_at, info.key, info.headers, info.payload, info.body;
    elsif held.segment <= 3 then
        if held.segment <= 2 then
            select m.published_at, m.key, m.headers, m.payload, m.body
            from pgq.message_2 as m
            where m.partition_id = held.partition_id
                and m.log_offset = held.log_offset
            into info.enqueued_at, info.key, info.headers, info.payload, info.body;
        else
            select m.published_at, m.key, m.headers, m.payload, m.body
            from pgq.message_3 as m
            where m.partition_id = held.partition_id
                and m.log_offset = held.log_offset
            into info.enqueued_at, info.key, info.headers, info.payload, info.body;
        end if;
    elsif held.segment <= 7 then
        if held.segment <= 5 then
            if held.segment <= 4 then
                select m.published_at, m.key, m.headers, m.payload, m.body
                from pgq.message_4 as m
                where m.partition_id = held.partition_id
                    and m.log_offset = held.log_offset
                into info.enqueued_at, info.key, info.headers, info.payload, info.body;
            else
                select m.published_at, m.key, m.headers, m.payload, m.body
                from pgq.message_5 as m
                where m.partition_id = held.partition_id
                    and m.log_offset = held.log_offset
                into info.enqueued_at, info.key, info.headers, info.payload, info.body;
            end if;
        else
            if held.segment <= 6 then
                select m.published_at, m.key, m.headers, m.payload, m.body
                from pgq.message_6 as m
                where m.partition_id = held.partition_id
                    and m.log_offset = held.log_offset
                into info.enqueued_at, info.key, info.headers, info.payload, info.body;
            else
                select m.published_at, m.key, m.headers, m.payload, m.body
                from pgq.message_7 as m
                where m.partition_id = held.partition_id
                    and m.log_offset = held.log_offset
                into info.enqueued_at, info.key, info.headers, info.payload, info.body;
            end if;
        end if;
    elsif held.segment <= 15 then
        if held.segment <= 11 then
            if held.segment <= 9 then
                if held.segment <= 8 then
                    select m.published_at, m.key, m.headers, m.payload, m.body
                    from pgq.message_8 as m
                    where m.partition_id = held.partition_id
                        and m.log_offset = held.log_offset
                    into info.enqueued_at, info.key, info.headers, info.payload, info.body;
                else
                    select m.published_at, m.key, m.headers, m.payload, m.body
                    from pgq.message_9 as m
                    where m.partition_id = held.partition_id
                        and m.log_offset = held.log_offset
                    into info.enqueued_at, info.key, info.headers, info.payload, info.body;
                end if;
            else
                if held.segment <= 10 then
                    select m.published_at, m.key, m.headers, m.payload, m.body
                    from pgq.message_10 as m
                    where m.partition_id = held.partition_id
                        and m.log_offset = held.log_offset
                    into info.enqueued_at, info.key, info.headers, info.payload, info.body;
                else
                    select m.published_at, m.key, m.headers, m.payload, m.body
                    from pgq.message_11 as m
                    where m.partition_id = held.partition_id
                        and m.log_offset = held.log_offset
                    into info.enqueued_at, info.key, info.headers, info.payload, info.body;
                end if;
            end if;
        else
            if held.segment <= 13 then
                if held.segment <= 12 then
                    select m.published_at, m.key, m.headers, m.payload, m.body
                    from pgq.message_12 as m
                    where m.partition_id = held.partition_id
                        and m.log_offset = held.log_offset
                    into info.enqueued_at, info.key, info.headers, info.payload, info.body;
                else
                    select m.published_at, m.key, m.headers, m.payload, m.body
                    from pgq.message_13 as m
                    where m.partition_id = held.partition_id
                        and m.log_offset = held.log_offset
                    into info.enqueued_at, info.key, info.headers, info.payload, info.body;
                end if;
            else
                if held.segment <= 14 then
                    select m.published_at, m.key, m.headers, m.payload, m.body
                    from pgq.message_14 as m
                    where m.partition_id = held.partition_id
                        and m.log_offset = held.log_offset
                    into info.enqueued_at, info.key, info.headers, info.payload, info.body;
                else
                    select m.published_at, m.key, m.headers, m.payload, m.body
                    from pgq.message_15 as m
                    where m.partition_id = held.partition_id
                        and m.log_offset = held.log_offset
                    into info.enqueued_at, info.key, info.headers, info.payload, info.body;
                end if;
            end if;
        end if;
    else
        execute format($leaf$
            select m.published_at, m.key, m.headers, m.payload, m.body
            from pgq.message_%1$s as m
            where m.partition_id = $1
                and m.log_offset = $2
        $leaf$, held.segment)
        into info.enqueued_at, info.key, info.headers, info.payload, info.body
        using held.partition_id, held.log_offset;
    end if;

    -- The snapshot may be from before cleanup moved the payload to another segment.
    if info.enqueued_at is null and not pgq._is_kept(held.segment) then
        raise exception 'retention moved the payload of job % while it was being read',
            get_job.job_id
            using errcode = '40001',
                hint = 'Try again.';
    end if;

    info.job_id := held.job_id;
    info.priority := held.priority;
    info.attempt := held.attempt;
    info.label := held.label;
    info.unique_key := held.unique_key;
    info.last_error := held.last_error;
    return next info;
end
$$;

revoke all on function pgq.get_job from public;

comment on function pgq.get_job(bigint) is
'A job that is not finished, or a dead letter, with its content; no row when there is none.
state: ready, leased, delayed, waiting (for another one of its key), expired or dead, the words of
queue_stats. A finished job has no row here: the view archived_jobs has it, but to look there by
job_id takes a look at all that is kept there, since an index on it would cost every ack.
Errors: 22004 a required argument is null, 40001 when retention removes what is being read (try
again).';

create or replace function pgq._extend_lease(job_ids bigint[], lease_token uuid, lease interval)
returns setof bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    rest bigint[] := _extend_lease.job_ids;
    extended bigint[];
    moment timestamptz;
begin
    if _extend_lease.lease is not null then
        perform pgq._check_interval('lease', _extend_lease.lease, false);
    end if;

    -- The transaction id first, then the clock: the floor relies on it.
    if pg_current_xact_id() is null then
        return;
    end if;

    while cardinality(rest) > 0 loop
        -- The clock is read behind the locks: a claim of a queue with max_leased holds the row of a
        -- job whose lease has run out, and does not count it.
        perform
        from pgq.job as j
        where j.job_id = any(rest)
            and j.lease_token = _extend_lease.lease_token
        order by j.job_id
        for update;
        moment := pgq._clock();

        -- Deleted and inserted again, as by a claim. Not joined with the queue: an old plan might
        -- walk all its jobs. The time is written as it stands in no index, for the same reason.
        with gone as (
            delete from pgq.job as j
            where j.job_id = any(rest)
                and j.lease_token = _extend_lease.lease_token
                and j.visible_at - moment > interval '0'
            returning j.*
        ),

        kept as (
            insert into pgq.job (
                job_id,
                queue_id,
                partition_id,
                log_offset,
                expires_at,
                visible_at,
                segment,
                attempt,
                priority,
                last_attempt,
                lease_token,
                label,
                last_error,
                unique_key,
                max_attempts,
                ordered_key
            )
            select
                g.job_id,
                g.queue_id,
                g.partition_id,
                g.log_offset,
                g.expires_at,
                greatest(
                    g.visible_at,
                    pgq._clock() + coalesce(
                        _extend_lease.lease,
                        (select q.lease from pgq.queue as q where q.queue_id = g.queue_id),
                        interval '0'
                    )
                ),
                g.segment,
                g.attempt,
                g.priority,
                g.last_attempt,
                g.lease_token,
                g.label,
                g.last_error,
                g.unique_key,
                g.max_attempts,
                g.ordered_key
            from gone as g
            returning job_id
        )

        select array_agg(k.job_id)
        into extended
        from kept as k;

        return query
        select unnest(extended);

        -- What was not found may have been replaced by a new row while this statement waited.
        exit when cardinality(extended) = cardinality(rest);
        rest := array(
            select unnest(rest)
            except
            select unnest(extended)
        );
        exit when cardinality(rest) = 0
            or not pgq._still_leased(rest, _extend_lease.lease_token)
            or not exists (
                select
                from pgq.job as j
                where j.job_id = any(rest)
                    and j.lease_token = _extend_lease.lease_token
                    and j.visible_at - moment > interval '0'
            );
    end loop;
end
$$;

create function pgq.fetch_dead_letters(
    queue text,
    max_jobs integer default 100,
    after_died_at timestamptz default null,
    after_job_id bigint default null
)
returns setof pgq.dead_letter
language plpgsql
stable
parallel safe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    target_id bigint;
    letters bigint := coalesce(fetch_dead_letters.max_jobs, 100);
    dead pgq.dead_job;
    letter pgq.dead_letter;
begin
    perform pgq._check_count('max_jobs', letters, 1, 1000000);
    if (fetch_dead_letters.after_died_at is null) <> (fetch_dead_letters.after_job_id is null) then
        raise exception '"after_died_at", "after_job_id": both or neither are needed'
            using errcode = '22023';
    end if;

    select q.queue_id, q.queue
    into target_id, letter.queue
    from pgq.queue as q
    where q.queue = fetch_dead_letters.queue collate "C";

    if target_id is null then
        perform pgq._fail_unknown_queue(fetch_dead_letters.queue collate "C");
    end if;

    for dead in
        select d.*
        from pgq.dead_job as d
        where d.queue_id = target_id
            and d.died_at >= coalesce(fetch_dead_letters.after_died_at, '-infinity')
            and (
                d.died_at > coalesce(fetch_dead_letters.after_died_at, '-infinity')
                or d.job_id > coalesce(fetch_dead_letters.after_job_id, -1)
            )
        order by d.died_at, d.job_id
        limit letters
    loop
        letter.enqueued_at := null;
        if dead.segment = 0 then
            select m.published_at, m.key, m.headers, m.payload, m.body
            from pgq.message_0 as m
            where m.partition_id = dead.partition_id
                and m.log_offset = dead.log_offset
            into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
        elsif dead.segment = 1 then
            select m.published_at, m.key, m.headers, m.payload, m.body
            from pgq.message_1 as m
            where m.partition_id = dead.partition_id
                and m.log_offset = dead.log_offset
            into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
        elsif dead.segment <= 3 then
            if dead.segment <= 2 then
                select m.published_at, m.key, m.headers, m.payload, m.body
                from pgq.message_2 as m
                where m.partition_id = dead.partition_id
                    and m.log_offset = dead.log_offset
                into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
            else
                select m.published_at, m.key, m.headers, m.payload, m.body
                from pgq.message_3 as m
                where m.partition_id = dead.partition_id
                    and m.log_offset = dead.log_offset
                into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
            end if;
        elsif dead.segment <= 7 then
            if dead.segment <= 5 then
                if dead.segment <= 4 then
                    select m.published_at, m.key, m.headers, m.payload, m.body
                    from pgq.message_4 as m
                    where m.partition_id = dead.partition_id
                        and m.log_offset = dead.log_offset
                    into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
                else
                    select m.published_at, m.key, m.headers, m.payload, m.body
                    from pgq.message_5 as m
                    where m.partition_id = dead.partition_id
                        and m.log_offset = dead.log_offset
                    into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
                end if;
            else
                if dead.segment <= 6 then
                    select m.published_at, m.key, m.headers, m.payload, m.body
                    from pgq.message_6 as m
                    where m.partition_id = dead.partition_id
                        and m.log_offset = dead.log_offset
                    into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
                else
                    select m.published_at, m.key, m.headers, m.payload, m.body
                    from pgq.message_7 as m
                    where m.partition_id = dead.partition_id
                        and m.log_offset = dead.log_offset
                    into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
                end if;
            end if;
        elsif dead.segment <= 15 then
            if dead.segment <= 11 then
                if dead.segment <= 9 then
                    if dead.segment <= 8 then
                        select m.published_at, m.key, m.headers, m.payload, m.body
                        from pgq.message_8 as m
                        where m.partition_id = dead.partition_id
                            and m.log_offset = dead.log_offset
                        into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
                    else
                        select m.published_at, m.key, m.headers, m.payload, m.body
                        from pgq.message_9 as m
                        where m.partition_id = dead.partition_id
                            and m.log_offset = dead.log_offset
                        into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
                    end if;
                else
                    if dead.segment <= 10 then
                        select m.published_at, m.key, m.headers, m.payload, m.body
                        from pgq.message_10 as m
                        where m.partition_id = dead.partition_id
                            and m.log_offset = dead.log_offset
                        into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
                    else
                        select m.published_at, m.key, m.headers, m.payload, m.body
                        from pgq.message_11 as m
                        where m.partition_id = dead.partition_id
                            and m.log_offset = dead.log_offset
                        into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
                    end if;
                end if;
            else
                if dead.segment <= 13 then
                    if dead.segment <= 12 then
                        select m.published_at, m.key, m.headers, m.payload, m.body
                        from pgq.message_12 as m
                        where m.partition_id = dead.partition_id
                            and m.log_offset = dead.log_offset
                        into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
                    else
                        select m.published_at, m.key, m.headers, m.payload, m.body
                        from pgq.message_13 as m
                        where m.partition_id = dead.partition_id
                            and m.log_offset = dead.log_offset
                        into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
                    end if;
                else
                    if dead.segment <= 14 then
                        select m.published_at, m.key, m.headers, m.payload, m.body
                        from pgq.message_14 as m
                        where m.partition_id = dead.partition_id
                            and m.log_offset = dead.log_offset
                        into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
                    else
                        select m.published_at, m.key, m.headers, m.payload, m.body
                        from pgq.message_15 as m
                        where m.partition_id = dead.partition_id
                            and m.log_offset = dead.log_offset
                        into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body;
                    end if;
                end if;
            end if;
        else
            execute format($leaf$
                select m.published_at, m.key, m.headers, m.payload, m.body
                from pgq.message_%1$s as m
                where m.partition_id = $1
                    and m.log_offset = $2
            $leaf$, dead.segment)
            into letter.enqueued_at, letter.key, letter.headers, letter.payload, letter.body
            using dead.partition_id, dead.log_offset;
        end if;

        -- The snapshot may be from before cleanup moved the payload to another segment.
        if letter.enqueued_at is null and not pgq._is_kept(dead.segment) then
            raise exception 'retention moved the payload of job % while it was being read',
                dead.job_id
                using errcode = '40001',
                    hint = 'Try again.';
        end if;

        letter.job_id := dead.job_id;
        letter.attempt := dead.attempt;
        letter.last_error := dead.last_error;
        letter.died_at := dead.died_at;
        letter.priority := dead.priority;
        letter.label := dead.label;
        letter.stops_key := dead.stops_key;
        return next letter;
    end loop;
end
$$;

revoke all on function pgq.fetch_dead_letters from public;

comment on function pgq.fetch_dead_letters(text, integer, timestamptz, bigint) is
'A page of the dead letters of a queue, those that died first before the others.
max_jobs: 1 to 1000000. The next page comes with the died_at and the job_id of the last letter of
this one as after_died_at and after_job_id; no row: there are no more. It reads only: redrive puts
letters back, purge_queue removes them. The view dead_letters shows the same of all queues.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad max_jobs, or only one of
after_died_at and after_job_id, 40001 when retention removes what is being read (try again).';

create function pgq.redrive(
    queue text,
    job_id bigint default null,
    all_jobs boolean default null,
    max_jobs integer default null,
    per_second double precision default null
)
returns bigint
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    target pgq.queue;
    letters bigint[];
    keyed bigint[];
    unique_keys text[];
    ordered_keys text[];
    free text[];
    redriven bigint;
begin
    -- A dead letter that came after the snapshot would be overlooked, and no row tells of it.
    perform pgq._check_read_committed('redrive');

    -- The transaction id first, then the clock: the floor relies on it.
    if pg_current_xact_id() is null then
        return null;
    end if;

    select q.*
    into target
    from pgq.queue as q
    where q.queue = redrive.queue collate "C";

    if target.queue_id is null then
        perform pgq._fail_unknown_queue(redrive.queue collate "C");
    end if;
    if (redrive.job_id is not null) = coalesce(redrive.all_jobs, false) then
        raise exception '"job_id", "all_jobs": exactly one is needed'
            using errcode = '22023',
                hint = 'Pass job_id, or all_jobs => true.';
    end if;
    if redrive.job_id is not null and num_nonnulls(redrive.max_jobs, redrive.per_second) > 0 then
        raise exception '"job_id" and "%" exclude each other',
            case when redrive.max_jobs is not null then 'max_jobs' else 'per_second' end
            using errcode = '22023';
    end if;
    if redrive.max_jobs is not null then
        perform pgq._check_count('max_jobs', redrive.max_jobs, 1, 1000000);
    end if;
    if redrive.per_second not between 0.001 and 1000000 then
        raise exception 'argument "per_second" must be from 0.001 to 1000000'
            using errcode = '22023',
                detail = format('Given: %s.', redrive.per_second);
    end if;

    -- In the order of their ids, as everywhere where several are locked; but those that died first
    -- are found in another order, so that whoever has one of them locked is not waited for.
    letters := case
        when redrive.max_jobs is not null then array(
            select d.job_id
            from pgq.dead_job as d
            where d.queue_id = target.queue_id
                and (
                    d.unique_key is null
                    or not exists (
                        select
                        from pgq.unique_job as u
                        where u.queue_id = d.queue_id
                            and u.unique_key = d.unique_key
                            and u.job_id <> d.job_id
                    )
                )
            order by d.died_at, d.job_id
            limit redrive.max_jobs
            for update skip locked
        )
        when redrive.job_id is not null then array(
            select d.job_id
            from pgq.dead_job as d
            where d.job_id = redrive.job_id
            for update
        )
        else array(
            select d.job_id
            from pgq.dead_job as d
            where d.queue_id = target.queue_id
            order by d.job_id
            for update
        )
    end;

    -- Those that stop their key have it still.
    ordered_keys := array(
        select d.ordered_key
        from pgq.dead_job as d
        where d.job_id = any(letters)
            and d.queue_id + 0 = target.queue_id
            and d.ordered_key is not null
            and not d.stops_key
    );
    free := pgq._join_order(target.queue_id, ordered_keys);

    -- A letter whose unique key another job has stays where it is.
    select
        array_agg(d.job_id),
        array_agg(d.unique_key)
    into keyed, unique_keys
    from pgq.dead_job as d
    where d.job_id = any(letters)
        and d.queue_id + 0 = target.queue_id
        and d.unique_key is not null;
    if keyed is not null then
        letters := array(
            select r.job_id
            from unnest(letters) as r (job_id)
            except
            select k.job_id
            from unnest(
                keyed, pgq._take_keys(target.queue_id, unique_keys, keyed, false)
            ) as k (job_id, holder_id)
            where k.holder_id <> k.job_id
        );
    end if;

    -- No join: for one letter, a plan might walk all. The queue is written as it stands in no
    -- index, for the same reason.
    with revived as (
        delete from pgq.dead_job as d
        where d.job_id = any(letters)
            and d.queue_id + 0 = target.queue_id
        returning d.*
    ),

    -- One after the other, those that died first before the others.
    placed as (
        select
            r.*,
            r.ordered_key is not null
            and not r.stops_key
            and (
                f.ordered_key is null
                or row_number() over (
                    partition by r.ordered_key, r.stops_key
                    order by r.job_id
                ) > 1
            ) as waits,
            pgq._clock() + make_interval(
                secs => coalesce(
                    (row_number() over (order by r.died_at, r.job_id) - 1) / redrive.per_second, 0
                )
            ) as moment
        from revived as r
        left join unnest(free) as f (ordered_key) on f.ordered_key collate "C" = r.ordered_key
    )

    insert into pgq.job (
        job_id,
        queue_id,
        partition_id,
        log_offset,
        expires_at,
        visible_at,
        segment,
        attempt,
        priority,
        label,
        last_error,
        unique_key,
        max_attempts,
        ordered_key,
        due_at
    )
    select
        r.job_id,
        r.queue_id,
        r.partition_id,
        r.log_offset,
        r.moment + target.job_ttl,
        case when r.waits then 'infinity' else r.moment end,
        r.segment,
        0,
        r.priority,
        r.label,
        r.last_error,
        r.unique_key,
        r.max_attempts,
        r.ordered_key,
        case when r.waits then r.moment end
    from placed as r;
    get diagnostics redriven = row_count;

    if cardinality(ordered_keys) > 0 then
        -- They come next, though the first of their key may have a higher id.
        update pgq.ordered_key as k
        set from_id = least(k.from_id, w.job_id)
        from (
            select j.ordered_key, min(j.job_id) as job_id
            from pgq.job as j
            where j.job_id = any(letters)
                and j.due_at is not null
            group by j.ordered_key
        ) as w
        where k.queue_id = target.queue_id
            and k.ordered_key = w.ordered_key;

        -- Of those that stay nothing is left.
        perform pgq._turns(
            target.queue_id,
            array(select j.ordered_key from pgq.job as j where j.job_id = any(letters)),
            free,
            null
        );
    end if;

    return redriven;
end
$$;

revoke all on function pgq.redrive from public;

comment on function pgq.redrive(text, bigint, boolean, integer, double precision) is
'Puts dead letters back into their queue and returns how many.
job_id: this one. all_jobs => true: all of the queue; with max_jobs (1 to 1000000) so many of those
that died first, but for those that another transaction is at. They are due at once, or with
per_second (0.001 to 1000000) so many of them in each second from now on, those that died first
before the others. They have all their attempts before them and the whole job_ttl from when they are
due. A letter stays one while another job has its unique_key: two unfinished jobs of one key there
are never. 0: the job is not a dead letter of this queue, or is such a one.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 neither job_id nor all_jobs,
or both, or a bad max_jobs or per_second, 25001 not under READ COMMITTED.';

create function pgq._check_effect(effect text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_effect.effect is null then
        raise exception 'argument "effect" must not be null'
            using errcode = '22004';
    end if;
    if length(_check_effect.effect) not between 1 and 255 then
        raise exception 'argument "effect" must have 1 to 255 characters'
            using errcode = '22023';
    end if;
end
$$;

revoke all on function pgq._check_effect from public;

comment on function pgq._check_effect(text) is
'Refuses an effect without a name (22004), or with one that is empty or long (22023).';

create function pgq._flush_commit()
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end
$$;

revoke all on function pgq._flush_commit from public;

comment on function pgq._flush_commit() is
'Lets the commit of this transaction wait for the disk where the session has it wait for nothing.';

create function pgq._lock_leased(job_id bigint, lease_token uuid)
returns pgq.job
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    held pgq.job;
begin
    -- What is not found may have been replaced by a new row while this statement waited.
    loop
        select j.*
        into held
        from pgq.job as j
        where j.job_id = _lock_leased.job_id
            and j.lease_token = _lock_leased.lease_token
        for update;

        exit when found
            or not pgq._still_leased(array[_lock_leased.job_id], _lock_leased.lease_token);
    end loop;

    return held;
end
$$;

revoke all on function pgq._lock_leased from public;

comment on function pgq._lock_leased(bigint, uuid) is
'Locks a job whose lease token is current, and returns it; nulls where the token is stale. Above
READ COMMITTED it raises 40001 where the snapshot is too old to tell.';

create function pgq._lock_effect(job_id bigint, lease_token uuid, effect text)
returns pgq.effect
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    held pgq.job;
    known pgq.effect;
begin
    -- Who began it may say what became of it, whoever has the job by now.
    select e.*
    into known
    from pgq.effect as e
    where e.job_id = _lock_effect.job_id
        and e.effect = _lock_effect.effect
        and e.lease_token = _lock_effect.lease_token
    for update;
    if found then
        return known;
    end if;

    held := pgq._lock_leased(_lock_effect.job_id, _lock_effect.lease_token);
    if held.job_id is null then
        return known;
    end if;

    select e.*
    into known
    from pgq.effect as e
    where e.job_id = _lock_effect.job_id
        and e.effect = _lock_effect.effect
    for update;

    if not found
        and current_setting('transaction_isolation') in ('repeatable read', 'serializable')
    then
        -- One that was begun after the snapshot cannot be inserted: that raises 40001.
        insert into pgq.effect (job_id, effect, lease_token, attempt, begun_at)
        values (
            _lock_effect.job_id,
            _lock_effect.effect,
            _lock_effect.lease_token,
            held.attempt,
            pgq._clock()
        )
        on conflict do nothing;

        delete from pgq.effect as e
        where e.job_id = _lock_effect.job_id
            and e.effect = _lock_effect.effect;
    end if;

    return known;
end
$$;

revoke all on function pgq._lock_effect from public;

comment on function pgq._lock_effect(bigint, uuid, text) is
'Locks what is noted of an effect and returns it, to who began it and to who holds the job; nulls to
others, and where nothing is noted.';

create function pgq.begin_effect(
    job_id bigint,
    lease_token uuid,
    effect text,
    at_least_once boolean default null
)
returns setof pgq.effect_state
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    held pgq.job;
    known pgq.effect;
    outcome text := 'begun';
begin
    perform pgq._check_lease(begin_effect.job_id, begin_effect.lease_token);
    perform pgq._check_effect(begin_effect.effect collate "C");

    -- Locked, so that nobody claims or ends the job before this transaction has ended.
    held := pgq._lock_leased(begin_effect.job_id, begin_effect.lease_token);
    if held.job_id is null or held.visible_at <= pgq._clock() then
        raise exception 'job % is not leased to this worker any more', begin_effect.job_id
            using errcode = 'MQ006',
                detail = case
                    when held.job_id is null
                        then 'It was given to another worker, or has ended.'
                    else format('The lease ended at %s.', held.visible_at)
                end,
                hint = 'Nothing was begun. Leave the job, and claim the next one.';
    end if;

    loop
        insert into pgq.effect as e (job_id, effect, lease_token, attempt, begun_at)
        values (
            begin_effect.job_id,
            begin_effect.effect,
            begin_effect.lease_token,
            held.attempt,
            pgq._clock()
        )
        on conflict do nothing
        returning e.*
        into known;
        exit when found;

        select e.*
        into known
        from pgq.effect as e
        where e.job_id = begin_effect.job_id
            and e.effect = begin_effect.effect collate "C"
        for update;
        -- Else it was forgotten in between.
        continue when not found;

        if known.finished_at is not null then
            outcome := 'finished';
        elsif coalesce(begin_effect.at_least_once, false) then
            update pgq.effect as e
            set
                lease_token = begin_effect.lease_token,
                attempt = held.attempt,
                begun_at = pgq._clock()
            where e.job_id = begin_effect.job_id
                and e.effect = begin_effect.effect collate "C"
            returning e.*
            into known;
        else
            outcome := 'interrupted';
        end if;
        exit;
    end loop;

    if outcome = 'begun' then
        perform pgq._flush_commit();
    end if;

    return query
    select outcome, known.result, known.attempt, known.begun_at;
end
$$;

revoke all on function pgq.begin_effect from public;

comment on function pgq.begin_effect(bigint, uuid, text, boolean) is
'Notes that an effect is about to run, or tells what became of it; MQ006 when the job is lost.
An effect is what a job does outside of this database: a mail, a payment. effect: its name, of 1 to
255 characters, one for each effect of a job. Call this, commit, run the effect only if the state is
begun, and call finish_effect. Later attempts of the job then get the state finished, and the
result. Where an attempt ended in between, or is still at it, they get interrupted: it may have
happened or not. Whoever has found out says so by finish_effect or forget_effect. So it happens at
most once. at_least_once => true: an interrupted effect is begun again, so it happens at least once,
and more than once only after such an end or a lost lease. The commit is flushed to disk, even if
the session turned synchronous_commit off. The note stays as long as the job, as a dead letter too.
Errors: MQ006 the lease has run out or was never the caller''s, or the job is finished (nothing was
begun; do not run the effect), 22004 a required argument is null, 22023 bad effect, 40001 above READ
COMMITTED when another transaction was first (try again).';

create function pgq.finish_effect(
    job_id bigint,
    lease_token uuid,
    effect text,
    result jsonb default null
)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    known pgq.effect;
begin
    perform pgq._check_lease(finish_effect.job_id, finish_effect.lease_token);
    perform pgq._check_effect(finish_effect.effect collate "C");

    known := pgq._lock_effect(
        finish_effect.job_id,
        finish_effect.lease_token,
        finish_effect.effect collate "C"
    );
    if known.finished_at is not null then
        return known.lease_token = finish_effect.lease_token;
    end if;

    update pgq.effect as e
    set
        lease_token = finish_effect.lease_token,
        finished_at = pgq._clock(),
        result = finish_effect.result
    where e.job_id = known.job_id
        and e.effect = known.effect;
    if not found then
        return false;
    end if;

    perform pgq._flush_commit();
    return true;
end
$$;

revoke all on function pgq.finish_effect from public;

comment on function pgq.finish_effect(bigint, uuid, text, jsonb) is
'Notes that an effect of a job has happened; false when the caller does not hold it any more.
The worker that began it holds it, even after its lease has run out, and so does whoever has the job
now: one that got the state interrupted, say, and has found out that it did happen. result: what
later attempts of the job get; null: nothing. It stays as it is: called again with the same token
this is true and changes nothing. False: it was never begun, or was forgotten, or was begun again or
finished by another worker. The commit is flushed to disk, even if the session turned
synchronous_commit off.
Errors: 22004 a required argument is null, 22023 bad effect, 40001 above READ COMMITTED when another
transaction was first (try again).';

create function pgq.forget_effect(job_id bigint, lease_token uuid, effect text)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    known pgq.effect;
begin
    perform pgq._check_lease(forget_effect.job_id, forget_effect.lease_token);
    perform pgq._check_effect(forget_effect.effect collate "C");

    known := pgq._lock_effect(
        forget_effect.job_id,
        forget_effect.lease_token,
        forget_effect.effect collate "C"
    );

    delete from pgq.effect as e
    where e.job_id = known.job_id
        and e.effect = known.effect
        and e.finished_at is null;
    return found;
end
$$;

revoke all on function pgq.forget_effect from public;

comment on function pgq.forget_effect(bigint, uuid, text) is
'Takes back that an effect was begun; false when the caller does not hold it any more.
The next begin_effect begins it as if it were the first. Only whoever knows that it did not happen,
and that nobody is running it, should call this: the worker that began it, when it failed before it
did anything; whoever has the job now; or an operator, with the lease_token that the view effects
shows. False: it is finished, or nothing is noted, or another worker has begun it since.
Errors: 22004 a required argument is null, 22023 bad effect, 40001 above READ COMMITTED when another
transaction was first (try again).';

create or replace function pgq._expired_jobs(moment timestamptz, max_jobs integer)
returns bigint[]
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    place record;
    found_ids bigint[] := '{}';
    more_ids bigint[];
    few constant integer := 100;
begin
    -- Those that are due longest are looked at: a few of each priority, and more only where all of
    -- these have expired. One that stands further behind is passed over by claims, and found when
    -- its turn comes or its segment is emptied. Those that wait for another one of their key stand
    -- behind all others, and are looked at in the same way.
    for place in
        select q.queue_id, p.priority, s.due_before, f.seen, f.expired_ids, f.last_at, f.last_id
        from pgq.queue as q
        cross join generate_series(0, 9) as p (priority)
        cross join lateral (
            values ('-infinity'::timestamptz, 'infinity'::timestamptz), ('infinity', null)
        ) as s (due_from, due_before)
        cross join lateral (
            select
                count(*) as seen,
                array_agg(j.job_id) filter (
                    where j.expires_at <= _expired_jobs.moment
                    and (j.lease_token is null or j.visible_at <= _expired_jobs.moment)
                ) as expired_ids,
                max(j.visible_at) as last_at,
                (array_agg(j.job_id order by j.visible_at desc, j.job_id desc))[1] as last_id
            from (
                select k.job_id, k.expires_at, k.visible_at, k.lease_token
                from pgq.job as k
                where k.queue_id = q.queue_id
                    and k.priority = p.priority
                    and k.visible_at >= s.due_from
                    and (s.due_before is null or k.visible_at < s.due_before)
                order by k.visible_at, k.job_id
                limit few
            ) as j
        ) as f
        where f.expired_ids is not null
            and (q.ordered or s.due_before is not null)
    loop
        found_ids := found_ids || place.expired_ids;
        exit when cardinality(found_ids) >= _expired_jobs.max_jobs;
        continue when place.seen < few or cardinality(place.expired_ids) * 2 < few;

        more_ids := array(
            select j.job_id
            from (
                select k.job_id, k.expires_at, k.visible_at, k.lease_token
                from pgq.job as k
                where k.queue_id = place.queue_id
                    and k.priority = place.priority
                    and (k.visible_at, k.job_id) > (place.last_at, place.last_id)
                    and (place.due_before is null or k.visible_at < place.due_before)
                order by k.visible_at, k.job_id
                limit _expired_jobs.max_jobs - cardinality(found_ids)
            ) as j
            where j.expires_at <= _expired_jobs.moment
                and (j.lease_token is null or j.visible_at <= _expired_jobs.moment)
        );
        found_ids := found_ids || more_ids;
    end loop;

    return found_ids[1:_expired_jobs.max_jobs];
end
$$;

create or replace function pgq._expire_jobs(job_ids bigint[], moment timestamptz)
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    expired_ids bigint[];
    ended pgq._ended_job[];
begin
    expired_ids := array(
        select j.job_id
        from pgq.job as j
        where j.job_id = any(_expire_jobs.job_ids)
            and j.expires_at <= _expire_jobs.moment
            and (j.lease_token is null or j.visible_at <= _expire_jobs.moment)
        for update skip locked
    );

    with expired as (
        delete from pgq.job as j
        where j.job_id = any(expired_ids)
        returning j.*
    ),

    archived as (
        insert into pgq.job_archive (
            job_id,
            queue_id,
            ended_at,
            segment,
            attempt,
            outcome,
            label,
            last_error,
            partition_id,
            log_offset
        )
        select
            e.job_id,
            e.queue_id,
            _expire_jobs.moment,
            e.segment,
            e.attempt,
            'expired',
            e.label,
            e.last_error,
            nullif(e.partition_id, q.partition_id),
            case when q.partition_id <> e.partition_id then e.log_offset end
        from expired as e
        inner join pgq.queue as q on q.queue_id = e.queue_id
        where q.archive
    )

    select
        array_agg(
            row(
                e.job_id,
                e.queue_id,
                e.unique_key,
                case when e.due_at is null then e.ordered_key end
            )::pgq._ended_job
        )
    into ended
    from expired as e;

    perform pgq._free_keys(array(
        select e
        from unnest(ended) as e
        where e.unique_key is not null
            or e.ordered_key is not null
    ));

    return query
    select 'jobs expired', q.queue::text, count(*)
    from unnest(ended) as e
    inner join pgq.queue as q on q.queue_id = e.queue_id
    group by q.queue;
end
$$;

create or replace function pgq._mark_exhausted(
    started pg_snapshot,
    horizon xid8,
    max_jobs integer
)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    note pgq.lowered_queue;
    budget integer := _mark_exhausted.max_jobs;
    seen integer;
    last_id bigint;
    wanted bigint[];
    marked bigint[];
begin
    for note in
        select n.*
        from pgq.lowered_queue as n
        order by n.queue_id
        for update skip locked
    loop
        -- A claim marks a job by the limit that it has read: the one before, if it began before the
        -- lower one was committed. So this waits for all that had an id before the note was seen.
        -- One that is too high is from before a restore into another cluster.
        if _mark_exhausted.horizon is not null
            and (
                note.horizon is null
                or note.horizon >= pg_snapshot_xmax(pg_current_snapshot())
            )
            and (
                pg_visible_in_snapshot(note.lowered_xid, _mark_exhausted.started)
                or note.lowered_xid >= pg_snapshot_xmax(pg_current_snapshot())
            )
        then
            note.horizon := _mark_exhausted.horizon;
            update pgq.lowered_queue as n
            set horizon = note.horizon
            where n.queue_id = note.queue_id;
        end if;
        continue when note.horizon is null
            or note.horizon > pg_snapshot_xmin(pg_current_snapshot());

        -- By their ids, in which they stay where they are, whatever becomes of them.
        select
            count(*),
            max(j.job_id),
            coalesce(
                array_agg(j.job_id) filter (
                    where j.queue_id = note.queue_id
                    and j.attempt >= q.max_attempts
                    and j.max_attempts is null
                    and not j.last_attempt
                ),
                '{}'
            )
        into seen, last_id, wanted
        from (
            select k.job_id, k.queue_id, k.attempt, k.last_attempt, k.max_attempts
            from pgq.job as k
            where k.job_id > note.marked_id
            order by k.job_id
            limit budget
        ) as j
        inner join pgq.queue as q on q.queue_id = note.queue_id;

        marked := array(
            select j.job_id
            from pgq.job as j
            where j.job_id = any(wanted)
            order by j.job_id
            for update skip locked
        );
        update pgq.job as j
        set last_attempt = true
        where j.job_id = any(marked);

        -- Somebody has one locked, or has just replaced it: it is looked at again when the others
        -- are done, and by the next cleanup at the earliest.
        note.missed_id := least(
            note.missed_id,
            (
                select min(w.job_id)
                from (select unnest(wanted) except select unnest(marked)) as w (job_id)
            )
        );
        if seen = budget then
            update pgq.lowered_queue as n
            set
                marked_id = last_id,
                missed_id = note.missed_id
            where n.queue_id = note.queue_id;
            return cardinality(marked) > 0 or note.missed_id is null;
        end if;
        budget := budget - seen;

        if note.missed_id is null then
            delete from pgq.lowered_queue as n
            where n.queue_id = note.queue_id;
        else
            update pgq.lowered_queue as n
            set
                marked_id = note.missed_id - 1,
                missed_id = null
            where n.queue_id = note.queue_id;
        end if;
    end loop;
    return false;
end
$$;

create or replace function pgq._bury_lost(moment timestamptz, max_jobs bigint)
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
    buried bigint;
begin
    for target in
        select q.queue, q.max_attempts, array_agg(l.job_id) as job_ids
        from (
            select j.job_id, j.queue_id
            from pgq.job as j
            inner join pgq.queue as p on p.queue_id = j.queue_id
            where j.last_attempt
                and j.visible_at <= _bury_lost.moment
                -- It may have been raised since.
                and j.attempt >= coalesce(j.max_attempts, p.max_attempts)
            order by j.visible_at
            limit _bury_lost.max_jobs
        ) as l
        inner join pgq.queue as q on q.queue_id = l.queue_id
        group by q.queue, q.max_attempts
    loop
        buried := pgq._bury_exhausted(target.job_ids, target.max_attempts, _bury_lost.moment);
        if buried > 0 then
            return next row('jobs died', target.queue, buried)::pgq.cleanup_action;
        end if;
    end loop;
end
$$;

create or replace function pgq._lower_floor(queue_id bigint)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- Nothing may be written below a floor; should the clock have been set back, jobs may stand
    -- there. Those of labels may then be wrong as well.
    insert into pgq.queue_floor (
        queue_id,
        label,
        seq,
        epoch,
        floor_times,
        floor_ids,
        recorded_at,
        safe_at,
        candidate_at,
        candidate_xid,
        note_floor
    )
    select
        f.queue_id,
        '',
        f.seq + 1,
        f.epoch + 1,
        s.floor_times,
        s.floor_ids,
        f.recorded_at,
        f.safe_at,
        f.candidate_at,
        f.candidate_xid,
        f.note_floor
    from (
        select g.*
        from pgq.queue_floor as g
        where g.queue_id = _lower_floor.queue_id
            and g.label = ''
        order by g.seq desc
        limit 1
    ) as f
    cross join lateral (
        select
            array_agg(
                case when j.below then j.visible_at else p.floor_time end order by p.place
            ) as floor_times,
            array_agg(
                case when j.below then j.job_id else p.floor_id end order by p.place
            ) as floor_ids,
            bool_or(j.below) as below
        from unnest(f.floor_times, f.floor_ids)
            with ordinality as p (floor_time, floor_id, place)
        left join lateral (
            select
                n.visible_at,
                n.job_id,
                (n.visible_at, n.job_id) < (p.floor_time, p.floor_id) as below
            from (
                (
                    select k.visible_at, k.job_id
                    from pgq.job as k
                    where k.queue_id = f.queue_id
                        and k.priority = p.place - 1
                    order by k.visible_at, k.job_id
                    limit 1
                )
                union all
                (
                    select r.visible_at, r.run_id
                    from pgq.job_run as r
                    where p.place = 1
                        and r.queue_id = f.queue_id
                    order by r.visible_at, r.run_id
                    limit 1
                )
            ) as n
            order by n.visible_at, n.job_id
            limit 1
        ) as j on true
    ) as s
    where s.below
    on conflict do nothing;

    return found;
end
$$;

create or replace function pgq._sweep_labels(queue_id bigint, max_labels bigint, moment timestamptz)
returns void
language plpgsql
volatile
parallel unsafe
set jit = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    common pgq.queue_floor;
    state pgq.queue_floor;
    before text collate "C";
    swept text collate "C";
begin
    select f.*
    into common
    from pgq.queue_floor as f
    where f.queue_id = _sweep_labels.queue_id
        and f.label = ''
    order by f.seq desc
    limit 1;

    select l.swept_label
    into before
    from pgq.queue_floor_lock as l
    where l.queue_id = _sweep_labels.queue_id;

    swept := before;
    for number in 1 .. _sweep_labels.max_labels loop
        -- The next label that has floors, from the last one down: so its newest row comes first,
        -- before what older ones have left in the index.
        select f.*
        into state
        from pgq.queue_floor as f
        where f.queue_id = _sweep_labels.queue_id
            and f.label > ''
            and f.label < coalesce('=' || swept, '>')
        order by f.label desc, f.seq desc
        limit 1;
        swept := substring(state.label from 2);
        exit when swept is null;

        -- Nobody has claimed by them for a day, or they have no meaning any more. Should the clock
        -- have been set back, a job may stand below; they then start again.
        delete from pgq.queue_floor as f
        where f.queue_id = _sweep_labels.queue_id
            and f.label = state.label
            and f.seq = state.seq
            and (
                f.recorded_at < _sweep_labels.moment - interval '1 day'
                or f.epoch <> common.epoch
                or exists (
                    select
                    from unnest(f.floor_times, f.floor_ids)
                        with ordinality as p (floor_time, floor_id, place)
                    cross join lateral (
                        select k.visible_at, k.job_id
                        from pgq.job as k
                        where -k.queue_id = -_sweep_labels.queue_id
                            and k.label = swept
                            and k.priority = p.place - 1
                        order by k.visible_at, k.job_id
                        limit 1
                    ) as j
                    where (j.visible_at, j.job_id) < (p.floor_time, p.floor_id)
                )
            );
    end loop;

    update pgq.queue_floor_lock as l
    set swept_label = swept
    where l.queue_id = _sweep_labels.queue_id
        and l.swept_label is distinct from swept;
end
$$;

create or replace function pgq._sweep_floors()
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
begin
    for target in
        -- The queues share the number of labels that one call looks at.
        select q.queue_id, q.queue, 1 + 1000 / count(*) over () as labels
        from pgq.queue as q
        where exists (select from pgq.job as j where j.queue_id = q.queue_id)
            or exists (select from pgq.job_run as r where r.queue_id = q.queue_id)
            or exists (
                select
                from pgq.queue_floor as f
                where f.queue_id = q.queue_id
                    and f.label > ''
            )
    loop
        continue when not pgq._lock_floor(target.queue_id);

        -- Workers may not be able to raise the floor themselves. The clock is read behind the lock:
        -- no claim that begins later is here first.
        perform pgq._raise_floor(target.queue_id, pgq._clock());

        if pgq._lower_floor(target.queue_id) then
            return next row('floor lowered', target.queue, 1)::pgq.cleanup_action;
        end if;

        -- Behind the others, without which those of labels do not count.
        perform pgq._sweep_labels(target.queue_id, target.labels, pgq._clock());
    end loop;
end
$$;

create function pgq._clean_order(max_rows integer)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target bigint;
    settled integer;
    dropped bigint[];
    removed integer;
    unfinished boolean := false;
begin
    -- Perhaps nobody claims, or the clock was set back.
    for target in
        select q.queue_id
        from pgq.queue as q
        where q.ordered
        order by q.queue_id
    loop
        settled := pgq._settle_notes(target, '-infinity', 'infinity', _clean_order.max_rows);
        unfinished := unfinished or settled = _clean_order.max_rows;
    end loop;

    -- What was locked when its queue was dropped, or came in since.
    with recursive having_keys as (
        (select k.queue_id from pgq.ordered_key as k order by k.queue_id limit 1)
        union all
        select (
            select k.queue_id
            from pgq.ordered_key as k
            where k.queue_id > h.queue_id
            order by k.queue_id
            limit 1
        )
        from having_keys as h
        where h.queue_id is not null
    ),

    having_notes as (
        (select n.queue_id from pgq.ordered_note as n order by n.queue_id limit 1)
        union all
        select (
            select n.queue_id
            from pgq.ordered_note as n
            where n.queue_id > h.queue_id
            order by n.queue_id
            limit 1
        )
        from having_notes as h
        where h.queue_id is not null
    )

    select coalesce(array_agg(h.queue_id), '{}')
    into dropped
    from (
        select k.queue_id from having_keys as k
        union
        select n.queue_id from having_notes as n
    ) as h
    where not exists (select from pgq.queue as q where q.queue_id = h.queue_id)
        and h.queue_id is not null;

    foreach target in array dropped loop
        delete from pgq.ordered_note as n
        where n.queue_id = target;

        delete from pgq.ordered_key as k
        where k.queue_id = target
            and k.ordered_key = any(array(
                select l.ordered_key
                from pgq.ordered_key as l
                where l.queue_id = target
                limit _clean_order.max_rows
                for update skip locked
            ));
        get diagnostics removed = row_count;
        unfinished := unfinished or removed = _clean_order.max_rows;
    end loop;

    return unfinished;
end
$$;

revoke all on function pgq._clean_order from public;

comment on function pgq._clean_order(integer) is
'The part of cleanup that brings up the next jobs of keys that were noted, and forgets the keys of
queues that were dropped: so many at most of each; says whether there may be more.';

create function pgq._clean_runs(moment timestamptz, max_jobs integer)
returns boolean
language plpgsql
volatile
parallel unsafe
set enable_seqscan = on
as $$
#variable_conflict use_column
declare
    run pgq.job_run;
    wanted bigint := _clean_runs.max_jobs;
    removed bigint;
begin
    -- They expire as jobs.
    for run in
        select r.*
        from pgq.job_run as r
        where r.expires_at <= _clean_runs.moment
        limit _clean_runs.max_jobs
        for update skip locked
    loop
        perform pgq._expand_run(run);
        wanted := wanted - run.jobs;
        exit when wanted <= 0;
    end loop;

    -- A publish that was in progress when the queue was dropped.
    delete from pgq.job_run as r
    where (r.queue_id, r.visible_at, r.run_id) in (
        select s.queue_id, s.visible_at, s.run_id
        from pgq.job_run as s
        where not exists (select from pgq.queue as q where q.queue_id = s.queue_id)
        limit _clean_runs.max_jobs
    );
    get diagnostics removed = row_count;

    return wanted <= 0 or removed = _clean_runs.max_jobs;
end
$$;

revoke all on function pgq._clean_runs from public;

comment on function pgq._clean_runs(timestamptz, integer) is
'The part of cleanup that makes jobs of runs that are past the job_ttl of their queue, and removes
those of dropped queues; true when there is more to do.';

create or replace function pgq._clean_jobs(
    started pg_snapshot,
    horizon xid8,
    moment timestamptz
)
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    report pgq.cleanup_action;
    batch constant integer := 10000;
    ended bigint := 0;
    removed bigint := 0;
    unfinished boolean;
    letters pgq._ended_job[];
begin
    unfinished := pgq._clean_runs(_clean_jobs.moment, batch);

    for report in
        select r.*
        from pgq._expire_jobs(
            pgq._expired_jobs(_clean_jobs.moment, batch), _clean_jobs.moment
        ) as r
    loop
        ended := ended + report.amount;
        return next report;
    end loop;

    unfinished := pgq._mark_exhausted(_clean_jobs.started, _clean_jobs.horizon, batch)
        or unfinished;

    for report in
        select r.*
        from pgq._bury_lost(_clean_jobs.moment, batch - ended) as r
    loop
        ended := ended + report.amount;
        return next report;
    end loop;

    return query
    select r.*
    from pgq._sweep_floors() as r;

    -- A letter that somebody redrives or purges is left to them.
    with old as materialized (
        select d.job_id
        from pgq.queue as q
        cross join lateral (
            select e.job_id
            from pgq.dead_job as e
            where e.queue_id = q.queue_id
                and e.died_at <= _clean_jobs.moment - q.retention
            order by e.died_at
            limit batch
            for update skip locked
        ) as d
        limit batch
    ),

    deleted as (
        delete from pgq.dead_job as d
        where d.job_id = any(array(select o.job_id from old as o))
        returning
            d.job_id,
            d.queue_id,
            d.unique_key,
            case when d.stops_key then d.ordered_key end as ordered_key
    )

    select array_agg(row(r.job_id, r.queue_id, r.unique_key, r.ordered_key)::pgq._ended_job)
    into letters
    from deleted as r;

    perform pgq._free_keys(array(
        select r
        from unnest(letters) as r
        where r.unique_key is not null
            or r.ordered_key is not null
    ));

    for report in
        select 'dead letters removed', q.queue::text, count(*)
        from unnest(letters) as r
        inner join pgq.queue as q on q.queue_id = r.queue_id
        group by q.queue
    loop
        removed := removed + report.amount;
        return next report;
    end loop;
    unfinished := unfinished or greatest(ended, removed) >= batch;

    -- An enqueue or a claim that was in progress when its queue was dropped. The ids of queues that
    -- have jobs are found one after the other, without a look at all jobs.
    with recursive having_jobs as (
        (select j.queue_id from pgq.job as j order by j.queue_id limit 1)
        union all
        select (
            select j.queue_id
            from pgq.job as j
            where j.queue_id > h.queue_id
            order by j.queue_id
            limit 1
        )
        from having_jobs as h
        where h.queue_id is not null
    )

    delete from pgq.job as j
    where j.job_id = any(array(
        select k.job_id
        from having_jobs as h
        inner join pgq.job as k on k.queue_id = h.queue_id
        where not exists (select from pgq.queue as q where q.queue_id = h.queue_id)
        limit batch
    ));
    get diagnostics removed = row_count;
    unfinished := unfinished or removed = batch;

    with recursive having_letters as (
        (select d.queue_id from pgq.dead_job as d order by d.queue_id limit 1)
        union all
        select (
            select d.queue_id
            from pgq.dead_job as d
            where d.queue_id > h.queue_id
            order by d.queue_id
            limit 1
        )
        from having_letters as h
        where h.queue_id is not null
    )

    delete from pgq.dead_job as d
    where d.job_id = any(array(
        select e.job_id
        from having_letters as h
        inner join pgq.dead_job as e on e.queue_id = h.queue_id
        where not exists (select from pgq.queue as q where q.queue_id = h.queue_id)
        limit batch
    ));
    get diagnostics removed = row_count;
    unfinished := unfinished or removed = batch;

    with recursive having_keys as (
        (select u.queue_id from pgq.unique_job as u order by u.queue_id limit 1)
        union all
        select (
            select u.queue_id
            from pgq.unique_job as u
            where u.queue_id > h.queue_id
            order by u.queue_id
            limit 1
        )
        from having_keys as h
        where h.queue_id is not null
    )

    delete from pgq.unique_job as u
    where u.job_id = any(array(
        select v.job_id
        from having_keys as h
        inner join pgq.unique_job as v on v.queue_id = h.queue_id
        where not exists (select from pgq.queue as q where q.queue_id = h.queue_id)
        limit batch
    ));
    get diagnostics removed = row_count;
    unfinished := unfinished or removed = batch;

    -- A drop above READ COMMITTED did not see the newest floors. From behind: there the newest row
    -- of a queue comes before what older ones have left in the index.
    with recursive having_floors as (
        (select f.queue_id from pgq.queue_floor as f order by f.queue_id desc limit 1)
        union all
        select (
            select f.queue_id
            from pgq.queue_floor as f
            where f.queue_id < h.queue_id
            order by f.queue_id desc
            limit 1
        )
        from having_floors as h
        where h.queue_id is not null
    )

    delete from pgq.queue_floor as f
    where f.queue_id = any(array(
        select h.queue_id
        from having_floors as h
        where not exists (select from pgq.queue as q where q.queue_id = h.queue_id)
    ));

    -- The same for those of claims.
    with recursive having_claims as (
        (select c.queue_id from pgq.claim_count as c order by c.queue_id desc limit 1)
        union all
        select (
            select c.queue_id
            from pgq.claim_count as c
            where c.queue_id < h.queue_id
            order by c.queue_id desc
            limit 1
        )
        from having_claims as h
        where h.queue_id is not null
    )

    delete from pgq.claim_count as c
    where c.queue_id = any(array(
        select h.queue_id
        from having_claims as h
        where not exists (select from pgq.queue as q where q.queue_id = h.queue_id)
    ));

    unfinished := pgq._clean_order(batch) or unfinished;
    if unfinished then
        return next row('more', 'jobs', 1)::pgq.cleanup_action;
    end if;
end
$$;

create function pgq._clean_effects()
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    -- One call looks at so many jobs, and removes so many effects.
    most constant integer := 10000;
    place bigint;
    looked_at bigint[];
    ended bigint[];
    removed bigint;
begin
    if not exists (select from pgq.effect) then
        return;
    end if;

    select w.last_value
    into place
    from pgq.effect_walk as w;

    -- The jobs that have effects are found one after the other, and each of them is looked for by
    -- its id. A job that is seen in neither table has ended for ever: a move is one transaction.
    with recursive having_effects as (
        (
            select e.job_id
            from pgq.effect as e
            where e.job_id > place
            order by e.job_id
            limit 1
        )
        union all
        select (
            select e.job_id
            from pgq.effect as e
            where e.job_id > h.job_id
            order by e.job_id
            limit 1
        )
        from having_effects as h
        where h.job_id is not null
    ),

    walk as materialized (
        select h.job_id
        from having_effects as h
        where h.job_id is not null
        limit most
    )

    select
        array_agg(k.job_id order by k.job_id),
        array_agg(k.job_id) filter (where alive.job_id is null and dead.job_id is null)
    into looked_at, ended
    from walk as k
    left join lateral (
        select j.job_id
        from pgq.job as j
        where j.job_id = k.job_id
        limit 1
    ) as alive on true
    left join lateral (
        select d.job_id
        from pgq.dead_job as d
        where d.job_id = k.job_id
        limit 1
    ) as dead on true;

    with doomed as materialized (
        select e.job_id, e.effect
        from pgq.effect as e
        where e.job_id = any(ended)
        limit most
        for update skip locked
    )

    delete from pgq.effect as e
    using doomed as d
    where e.job_id = d.job_id
        and e.effect = d.effect;
    get diagnostics removed = row_count;

    if removed > 0 then
        return next row('effects removed', 'jobs', removed)::pgq.cleanup_action;
    end if;

    -- The next call goes on behind these jobs, or begins again behind the last one. Only where more
    -- is to be removed than one call may does it look at them again.
    if removed < most then
        perform setval(
            'pgq.effect_walk',
            case when cardinality(looked_at) = most then looked_at[most] else 0 end
        );
    end if;
    if removed = most or (removed > 0 and cardinality(looked_at) = most) then
        return next row('more', 'effects', 1)::pgq.cleanup_action;
    end if;
end
$$;

revoke all on function pgq._clean_effects from public;

comment on function pgq._clean_effects() is
'The part of cleanup that removes the notes about effects of jobs that have ended. It waits for
nobody.';

create function pgq._jobs_of_segment(
    segment integer,
    queue_id bigint,
    partition_id bigint,
    max_jobs bigint,
    dead boolean
)
returns bigint[]
language plpgsql
volatile
parallel unsafe
set enable_seqscan = on
as $$
#variable_conflict use_column
begin
    -- There is no index for this: it is asked for when a segment is to be emptied, and else never.
    if _jobs_of_segment.dead then
        return array(
            select d.job_id
            from pgq.dead_job as d
            where d.segment = _jobs_of_segment.segment
                and (
                    _jobs_of_segment.queue_id is null or d.queue_id = _jobs_of_segment.queue_id
                )
                and (
                    _jobs_of_segment.partition_id is null
                    or d.partition_id = _jobs_of_segment.partition_id
                )
            limit _jobs_of_segment.max_jobs
        );
    end if;

    return array(
        select j.job_id
        from pgq.job as j
        where j.segment = _jobs_of_segment.segment
            and (_jobs_of_segment.queue_id is null or j.queue_id = _jobs_of_segment.queue_id)
            and (
                _jobs_of_segment.partition_id is null
                or j.partition_id = _jobs_of_segment.partition_id
            )
        limit _jobs_of_segment.max_jobs
    );
end
$$;

revoke all on function pgq._jobs_of_segment from public;

comment on function pgq._jobs_of_segment(integer, bigint, bigint, bigint, boolean) is
'Unfinished jobs, or dead ones, whose payloads stand in a segment: those of a queue or of all,
stored under one partition_id or any, so many at most.';

create function pgq._expand_segment(
    segment integer,
    queue_id bigint,
    partition_id bigint,
    max_jobs integer
)
returns void
language plpgsql
volatile
parallel unsafe
set enable_seqscan = on
as $$
#variable_conflict use_column
declare
    run pgq.job_run;
    wanted bigint := _expand_segment.max_jobs;
begin
    for run in
        select r.*
        from pgq.job_run as r
        where r.segment = _expand_segment.segment
            and (_expand_segment.queue_id is null or r.queue_id = _expand_segment.queue_id)
            and (
                _expand_segment.partition_id is null
                or r.partition_id = _expand_segment.partition_id
            )
        limit _expand_segment.max_jobs
        for update skip locked
    loop
        perform pgq._expand_run(run);
        wanted := wanted - run.jobs;
        exit when wanted <= 0;
    end loop;
end
$$;

revoke all on function pgq._expand_segment from public;

comment on function pgq._expand_segment(integer, bigint, bigint, integer) is
'Makes jobs of runs whose payloads stand in a segment: of one queue or of all, stored under one
partition_id or any. It stops behind max_jobs.';

create function pgq._carry_jobs(
    leaf integer,
    queue_id bigint,
    partition_id bigint,
    moment timestamptz,
    max_jobs integer
)
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    living bigint[];
    dead bigint[];
    carried bigint;
begin
    perform pgq._expand_segment(
        _carry_jobs.leaf, _carry_jobs.queue_id, _carry_jobs.partition_id, _carry_jobs.max_jobs
    );

    living := pgq._jobs_of_segment(
        _carry_jobs.leaf,
        _carry_jobs.queue_id,
        _carry_jobs.partition_id,
        _carry_jobs.max_jobs,
        false
    );
    return query
    select r.*
    from pgq._expire_jobs(living, _carry_jobs.moment) as r;

    living := array(
        select j.job_id
        from pgq.job as j
        where j.job_id = any(living)
            and j.segment = _carry_jobs.leaf
        for update skip locked
    );
    dead := array(
        select d.job_id
        from pgq.dead_job as d
        where d.job_id = any(
            pgq._jobs_of_segment(
                _carry_jobs.leaf,
                _carry_jobs.queue_id,
                _carry_jobs.partition_id,
                _carry_jobs.max_jobs - cardinality(living),
                true
            )
        )
        for update skip locked
    );

    -- Each of them gets a copy under its own number; what it had in a topic stays there. A job
    -- whose message is missing is carried without one. All in one statement: beside an alter_queue,
    -- or a cleanup that moves the queue to another segment, two would not see the same home.
    execute format(
        'with located as (
            select j.job_id, j.queue_id, j.partition_id, j.log_offset
            from pgq.job as j
            where j.job_id = any($1)
            union all
            select d.job_id, d.queue_id, d.partition_id, d.log_offset
            from pgq.dead_job as d
            where d.job_id = any($2)
        ),

        home as materialized (
            select q.queue_id, q.partition_id, q.segment
            from pgq.queue as q
            where q.queue_id in (select l.queue_id from located as l)
        ),

        copied as (
            insert into pgq.message (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                h.partition_id,
                l.job_id,
                m.published_at,
                h.segment,
                m.key,
                m.headers,
                m.payload,
                m.body
            from located as l
            inner join home as h on h.queue_id = l.queue_id
            cross join lateral (
                select n.*
                from pgq.message_%1$s as n
                where n.partition_id = l.partition_id
                    and n.log_offset = l.log_offset
                limit 1
            ) as m
            on conflict do nothing
        ),

        moved as (
            update pgq.job as j
            set
                segment = h.segment,
                partition_id = h.partition_id,
                log_offset = j.job_id
            from home as h
            where j.job_id = any($1)
                and h.queue_id = j.queue_id
            returning j.job_id
        ),

        moved_dead as (
            update pgq.dead_job as d
            set
                segment = h.segment,
                partition_id = h.partition_id,
                log_offset = d.job_id
            from home as h
            where d.job_id = any($2)
                and h.queue_id = d.queue_id
            returning d.job_id
        )

        select (select count(*) from moved) + (select count(*) from moved_dead)',
        _carry_jobs.leaf
    )
    into carried
    using living, dead;

    if carried > 0 then
        return next row(
            'payloads moved', _carry_jobs.leaf::text, carried
        )::pgq.cleanup_action;
    end if;
end
$$;

revoke all on function pgq._carry_jobs from public;

comment on function pgq._carry_jobs(integer, bigint, bigint, timestamptz, integer) is
'Carries the payloads of unfinished and dead jobs, of one queue or of all, stored under one
partition_id or any, from a segment to those written to now, a batch at a time. A job that somebody
has locked is left for the next time.';

create function pgq._has_jobs(segment integer, queue_id bigint, partition_id bigint)
returns boolean
language plpgsql
volatile
parallel unsafe
set enable_seqscan = on
as $$
#variable_conflict use_column
begin
    -- All in one statement: a job that is buried or redriven meanwhile, or comes out of a run, is
    -- seen on one of the sides.
    return exists (
        select
        from pgq.job as j
        where j.segment = _has_jobs.segment
            and (_has_jobs.queue_id is null or j.queue_id = _has_jobs.queue_id)
            and (_has_jobs.partition_id is null or j.partition_id = _has_jobs.partition_id)
    ) or exists (
        select
        from pgq.dead_job as d
        where d.segment = _has_jobs.segment
            and (_has_jobs.queue_id is null or d.queue_id = _has_jobs.queue_id)
            and (_has_jobs.partition_id is null or d.partition_id = _has_jobs.partition_id)
    ) or exists (
        select
        from pgq.job_run as r
        where r.segment = _has_jobs.segment
            and (_has_jobs.queue_id is null or r.queue_id = _has_jobs.queue_id)
            and (_has_jobs.partition_id is null or r.partition_id = _has_jobs.partition_id)
    );
end
$$;

revoke all on function pgq._has_jobs from public;

comment on function pgq._has_jobs(integer, bigint, bigint) is
'Whether payloads of unfinished or dead jobs stand in a segment: of one queue or of all, stored
under one partition_id or any.';

create or replace function pgq._publish_packed(
    topic text,
    packed bytea,
    starts integer[],
    lengths integer[],
    keys text[],
    headers jsonb[],
    partition integer
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    -- Joined with nothing it is read from storage once, not for every message.
    whole bytea := _publish_packed.packed || ''::bytea;
    size integer := cardinality(_publish_packed.lengths);
    state pgq._partition_state;
    newest pgq._newest_message;
    first_offset bigint;
    stamp timestamptz;
begin
    -- As publish_batch does it, but that the contents are cut out while they are stored.
    state := pgq._lock_partition(_publish_packed.topic, _publish_packed.partition, null);

    -- A new statement: its snapshot is younger than the lock, so it sees the newest offset.
    newest := pgq._newest(state.partition_id, state.segment, state.segment_first_offset);
    first_offset := coalesce(newest.log_offset + 1, state.segment_first_offset);
    stamp := greatest(pgq._clock(), newest.published_at, state.segment_entered_at);

    if state.segment = 0 then
        insert into pgq.message_0 (
            partition_id, log_offset, published_at, segment, key, headers, payload, body
        )
        select
            state.partition_id,
            b.log_offset,
            stamp,
            0,
            b.key,
            b.header,
            null,
            substring(whole from b.start for b.length)
        from (
            select
                generate_series(first_offset, first_offset + size - 1) as log_offset,
                unnest(_publish_packed.starts) as start,
                unnest(_publish_packed.lengths) as length,
                unnest(_publish_packed.keys) as key,
                unnest(_publish_packed.headers) as header
        ) as b;
    elsif state.segment = 1 then
        insert into pgq.message_1 (
            partition_id, log_offset, published_at, segment, key, headers, payload, body
        )
        select
            state.partition_id,
            b.log_offset,
            stamp,
            1,
            b.key,
            b.header,
            null,
            substring(whole from b.start for b.length)
        from (
            select
                generate_series(first_offset, first_offset + size - 1) as log_offset,
                unnest(_publish_packed.starts) as start,
                unnest(_publish_packed.lengths) as length,
                unnest(_publish_packed.keys) as key,
                unnest(_publish_packed.headers) as header
        ) as b;
    elsif state.segment <= 3 then
        if state.segment <= 2 then
            insert into pgq.message_2 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                state.partition_id,
                b.log_offset,
                stamp,
                2,
                b.key,
                b.header,
                null,
                substring(whole from b.start for b.length)
            from (
                select
                    generate_series(first_offset, first_offset + size - 1) as log_offset,
                    unnest(_publish_packed.starts) as start,
                    unnest(_publish_packed.lengths) as length,
                    unnest(_publish_packed.keys) as key,
                    unnest(_publish_packed.headers) as header
            ) as b;
        else
            insert into pgq.message_3 (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                state.partition_id,
                b.log_offset,
                stamp,
                3,
                b.key,
                b.header,
                null,
                substring(whole from b.start for b.length)
            from (
                select
                    generate_series(first_offset, first_offset + size - 1) as log_offset,
                    unnest(_publish_packed.starts) as start,
                    unnest(_publish_packed.lengths) as length,
                    unnest(_publish_packed.keys) as key,
                    unnest(_publish_packed.headers) as header
            ) as b;
        end if;
    elsif state.segment <= 7 then
        if state.segment <= 5 then
            if state.segment <= 4 then
                insert into pgq.message_4 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    state.partition_id,
                    b.log_offset,
                    stamp,
                    4,
                    b.key,
                    b.header,
                    null,
                    substring(whole from b.start for b.length)
                from (
                    select
                        generate_series(first_offset, first_offset + size - 1) as log_offset,
                        unnest(_publish_packed.starts) as start,
                        unnest(_publish_packed.lengths) as length,
                        unnest(_publish_packed.keys) as key,
                        unnest(_publish_packed.headers) as header
                ) as b;
            else
                insert into pgq.message_5 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    state.partition_id,
                    b.log_offset,
                    stamp,
                    5,
                    b.key,
                    b.header,
                    null,
                    substring(whole from b.start for b.length)
                from (
                    select
                        generate_series(first_offset, first_offset + size - 1) as log_offset,
                        unnest(_publish_packed.starts) as start,
                        unnest(_publish_packed.lengths) as length,
                        unnest(_publish_packed.keys) as key,
                        unnest(_publish_packed.headers) as header
                ) as b;
            end if;
        else
            if state.segment <= 6 then
                insert into pgq.message_6 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    state.partition_id,
                    b.log_offset,
                    stamp,
                    6,
                    b.key,
                    b.header,
                    null,
                    substring(whole from b.start for b.length)
                from (
                    select
                        generate_series(first_offset, first_offset + size - 1) as log_offset,
                        unnest(_publish_packed.starts) as start,
                        unnest(_publish_packed.lengths) as length,
                        unnest(_publish_packed.keys) as key,
                        unnest(_publish_packed.headers) as header
                ) as b;
            else
                insert into pgq.message_7 (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select
                    state.partition_id,
                    b.log_offset,
                    stamp,
                    7,
                    b.key,
                    b.header,
                    null,
                    substring(whole from b.start for b.length)
                from (
                    select
                        generate_series(first_offset, first_offset + size - 1) as log_offset,
                        unnest(_publish_packed.starts) as start,
                        unnest(_publish_packed.lengths) as length,
                        unnest(_publish_packed.keys) as key,
                        unnest(_publish_packed.headers) as header
                ) as b;
            end if;
        end if;
    elsif state.segment <= 15 then
        if state.segment <= 11 then
            if state.segment <= 9 then
                if state.segment <= 8 then
                    insert into pgq.message_8 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        8,
                        b.key,
                        b.header,
                        null,
                        substring(whole from b.start for b.length)
                    from (
                        select
                            generate_series(first_offset, first_offset + size - 1) as log_offset,
                            unnest(_publish_packed.starts) as start,
                            unnest(_publish_packed.lengths) as length,
                            unnest(_publish_packed.keys) as key,
                            unnest(_publish_packed.headers) as header
                    ) as b;
                else
                    insert into pgq.message_9 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        9,
                        b.key,
                        b.header,
                        null,
                        substring(whole from b.start for b.length)
                    from (
                        select
                            generate_series(first_offset, first_offset + size - 1) as log_offset,
                            unnest(_publish_packed.starts) as start,
                            unnest(_publish_packed.lengths) as length,
                            unnest(_publish_packed.keys) as key,
                            unnest(_publish_packed.headers) as header
                    ) as b;
                end if;
            else
                if state.segment <= 10 then
                    insert into pgq.message_10 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        10,
                        b.key,
                        b.header,
                        null,
                        substring(whole from b.start for b.length)
                    from (
                        select
                            generate_series(first_offset, first_offset + size - 1) as log_offset,
                            unnest(_publish_packed.starts) as start,
                            unnest(_publish_packed.lengths) as length,
                            unnest(_publish_packed.keys) as key,
                            unnest(_publish_packed.headers) as header
                    ) as b;
                else
                    insert into pgq.message_11 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        11,
                        b.key,
                        b.header,
                        null,
                        substring(whole from b.start for b.length)
                    from (
                        select
                            generate_series(first_offset, first_offset + size - 1) as log_offset,
                            unnest(_publish_packed.starts) as start,
                            unnest(_publish_packed.lengths) as length,
                            unnest(_publish_packed.keys) as key,
                            unnest(_publish_packed.headers) as header
                    ) as b;
                end if;
            end if;
        else
            if state.segment <= 13 then
                if state.segment <= 12 then
                    insert into pgq.message_12 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        12,
                        b.key,
                        b.header,
                        null,
                        substring(whole from b.start for b.length)
                    from (
                        select
                            generate_series(first_offset, first_offset + size - 1) as log_offset,
                            unnest(_publish_packed.starts) as start,
                            unnest(_publish_packed.lengths) as length,
                            unnest(_publish_packed.keys) as key,
                            unnest(_publish_packed.headers) as header
                    ) as b;
                else
                    insert into pgq.message_13 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        13,
                        b.key,
                        b.header,
                        null,
                        substring(whole from b.start for b.length)
                    from (
                        select
                            generate_series(first_offset, first_offset + size - 1) as log_offset,
                            unnest(_publish_packed.starts) as start,
                            unnest(_publish_packed.lengths) as length,
                            unnest(_publish_packed.keys) as key,
                            unnest(_publish_packed.headers) as header
                    ) as b;
                end if;
            else
                if state.segment <= 14 then
                    insert into pgq.message_14 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        14,
                        b.key,
                        b.header,
                        null,
                        substring(whole from b.start for b.length)
                    from (
                        select
                            generate_series(first_offset, first_offset + size - 1) as log_offset,
                            unnest(_publish_packed.starts) as start,
                            unnest(_publish_packed.lengths) as length,
                            unnest(_publish_packed.keys) as key,
                            unnest(_publish_packed.headers) as header
                    ) as b;
                else
                    insert into pgq.message_15 (
                        partition_id, log_offset, published_at, segment, key, headers, payload, body
                    )
                    select
                        state.partition_id,
                        b.log_offset,
                        stamp,
                        15,
                        b.key,
                        b.header,
                        null,
                        substring(whole from b.start for b.length)
                    from (
                        select
                            generate_series(first_offset, first_offset + size - 1) as log_offset,
                            unnest(_publish_packed.starts) as start,
                            unnest(_publish_packed.lengths) as length,
                            unnest(_publish_packed.keys) as key,
                            unnest(_publish_packed.headers) as header
                    ) as b;
                end if;
            end if;
        end if;
    else
        execute format($leaf$
            insert into pgq.message_%1$s (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                $1,
                b.log_offset,
                $2,
                %1$s,
                b.key,
                b.header,
                null,
                substring($3 from b.start for b.length)
            from (
                select
                    generate_series($4, $4 + $5 - 1) as log_offset,
                    unnest($6) as start,
                    unnest($7) as length,
                    unnest($8) as key,
                    unnest($9) as header
            ) as b
        $leaf$, state.segment)
        using state.partition_id, stamp, whole, first_offset, size, _publish_packed.starts, _publish_packed.lengths, _publish_packed.keys, _publish_packed.headers;
    end if;

    if state.followed and size > 0 then
        perform pgq._deliver(
            state.partition_id, state.segment, first_offset, first_offset + size - 1
        );
    end if;
end
$$;

create or replace function pgq._publish_staged(target pgq.bulk_write)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    topic_name text;
    queue_name text;
    partition_count integer;
    is_deferred boolean;
    made pgq.staged_chunk;
    free text[];
    newest_id bigint;
begin
    select t.partitions, t.deferred
    into partition_count, is_deferred
    from pgq.topic as t
    where t.topic_id = (_publish_staged.target).topic_id;

    -- In ascending order, as everywhere: the chunks need them in any order.
    perform
    from pgq.partition as p
    where p.topic_id = (_publish_staged.target).topic_id
        and (
            p.partition in (
                select coalesce(c.partition, c.task % partition_count)
                from pgq.staged_chunk as c
                where c.write_id = (_publish_staged.target).write_id
            )
            or exists (
                select
                from pgq.staged_chunk as c
                where c.write_id = (_publish_staged.target).write_id
                    and c.partition is null
                    and c.keys is not null
            )
        )
    order by p.partition
    for no key update;

    -- Only now: a topic whose partitions are locked cannot be dropped and made anew.
    select t.topic
    into topic_name
    from pgq.topic as t
    where t.topic_id = (_publish_staged.target).topic_id;

    select q.queue
    into queue_name
    from pgq.queue as q
    where q.queue_id = (_publish_staged.target).queue_id;

    if num_nonnulls(topic_name, queue_name) = 0 then
        perform pgq._fail_write_lost(
            (_publish_staged.target).write_id, 'Its topic or queue was dropped.'
        );
    end if;

    if queue_name is not null then
        perform pgq._check_staged_delays(
            (_publish_staged.target).write_id, (_publish_staged.target).queue_id
        );
        -- In ascending order, here too. So all jobs wait at first, and then the first of each key
        -- comes up.
        if (
            select q.ordered
            from pgq.queue as q
            where q.queue_id = (_publish_staged.target).queue_id
        )
        then
            free := pgq._join_order(
                (_publish_staged.target).queue_id,
                array(
                    select distinct unnest(c.keys)
                    from pgq.staged_chunk as c
                    where c.write_id = (_publish_staged.target).write_id
                )
            );
            newest_id := coalesce(pg_sequence_last_value('pgq.job_id'), 0);
        end if;
    end if;

    for made in
        select c.*
        from pgq.staged_chunk as c
        where c.write_id = (_publish_staged.target).write_id
            and c.messages > 0
        order by c.task, c.chunk
    loop
        if made.partition is null and made.keys is null then
            made.partition := made.task % partition_count;
        end if;
        if made.packed_bodies is not null then
            perform pgq._publish_packed(
                topic_name,
                made.packed_bodies,
                made.starts,
                made.lengths,
                made.keys,
                made.headers,
                made.partition
            );
        elsif topic_name is not null and (made.partition is null or is_deferred) then
            -- Those without a key keep to the partition of their task, here too.
            perform pgq._publish_spread(
                topic_name,
                made.payloads,
                made.keys,
                made.headers,
                made.partition,
                made.task % partition_count,
                made.bodies
            );
        else
            perform pgq._publish_messages(
                topic_name,
                queue_name,
                made.payloads,
                made.keys,
                made.headers,
                made.partition,
                made.delay,
                made.priority,
                made.labels,
                made.bodies
            );
        end if;
    end loop;

    if free is not null then
        perform pgq._turns((_publish_staged.target).queue_id, null, free, newest_id);
    end if;

    perform pgq._check_target(
        (_publish_staged.target).write_id,
        (_publish_staged.target).topic_id,
        (_publish_staged.target).queue_id
    );
end
$$;

create or replace function pgq._publish_row()
returns trigger
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgq.publish(
        topic => new.topic,
        payload => new.payload::jsonb,
        key => new.key,
        headers => new.headers::jsonb,
        partition => new.partition,
        idempotency_key => new.idempotency_key,
        body => new.body
    );
    return new;
end
$$;

create or replace function pgq._enqueue_row()
returns trigger
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgq.enqueue(
        queue => new.queue,
        payload => new.payload::jsonb,
        key => new.key,
        headers => new.headers::jsonb,
        delay => new.delay::interval,
        run_at => new.run_at,
        priority => new.priority,
        label => new.label,
        idempotency_key => new.idempotency_key,
        unique_key => new.unique_key,
        max_attempts => new.max_attempts,
        body => new.body
    );
    return new;
end
$$;

create function pgq._fail_unknown_schedule(schedule text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _fail_unknown_schedule.schedule is null then
        raise exception 'argument "schedule" must not be null'
            using errcode = '22004';
    end if;
    raise exception 'unknown schedule "%"', _fail_unknown_schedule.schedule
        using errcode = 'MQ009',
            hint = 'Create it with pgq.create_schedule, or see pgq.list_schedules for those that '
                'exist.';
end
$$;

revoke all on function pgq._fail_unknown_schedule from public;

comment on function pgq._fail_unknown_schedule(text) is
'Raises MQ009, or 22004 when no name was given.';

create function pgq._fail_cron(detail text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    raise exception 'argument "cron" must be a cron expression'
        using errcode = '22023',
            detail = _fail_cron.detail,
            hint = 'Five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or '
                'JAN-DEC), day of week (0-7 or SUN-SAT). Each is *, a number, a range like 1-5, '
                'either of the last with a step like */10 or 8-18/2, or several of these with '
                'commas between. Or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, '
                '@annually.';
end
$$;

revoke all on function pgq._fail_cron from public;

comment on function pgq._fail_cron(text) is
'Refuses a cron expression (22023); the detail says what is wrong with it.';

create function pgq._check_time_zone(time_zone text)
returns void
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
begin
    -- PostgreSQL takes abbreviations and rules such as EST or X5 as well, which know no changes of
    -- the clocks, or look like a name that was meant.
    if _check_time_zone.time_zone <> 'UTC' and not exists (
        select
        from pg_catalog.pg_timezone_names as z
        where z.name = _check_time_zone.time_zone
    ) then
        raise exception 'argument "time_zone" must name a time zone of the server'
            using errcode = '22023',
                detail = format('Given: "%s".', left(_check_time_zone.time_zone, 100)),
                hint = 'See pg_timezone_names for those that there are, such as Europe/Berlin.';
    end if;
end
$$;

revoke all on function pgq._check_time_zone from public;

comment on function pgq._check_time_zone(text) is
'Refuses a time zone that the server does not know by this name (22023).';

create function pgq._cron_field(
    field text,
    given text,
    lowest integer,
    highest integer,
    names text[]
)
returns integer[]
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    item text;
    part text[];
    first_value integer;
    last_value integer;
    step integer;
    found_values integer[] := '{}';
begin
    foreach item in array string_to_array(_cron_field.given, ',') loop
        -- A star, or a first value and perhaps a last one; then perhaps a step.
        part := regexp_match(
            lower(item collate "C"),
            '^(?:\*|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?$'
        );
        if part[1] is null then
            first_value := _cron_field.lowest;
            last_value := _cron_field.highest;
        else
            first_value := case
                when part[1] ~ '[0-9]' then part[1]::integer
                else _cron_field.lowest - 1 + array_position(_cron_field.names, part[1])
            end;
            last_value := case
                when part[2] is null then first_value
                when part[2] ~ '[0-9]' then part[2]::integer
                else _cron_field.lowest - 1 + array_position(_cron_field.names, part[2])
            end;
            -- A week ends with a Sunday too: FRI-SUN.
            if _cron_field.highest = 7 and last_value = 0 and first_value > 0 then
                last_value := 7;
            end if;
        end if;
        step := coalesce(part[3]::integer, 1);

        if (
            part is not null
            and first_value >= _cron_field.lowest
            and last_value between first_value and _cron_field.highest
            and step between 1 and _cron_field.highest
            and (part[3] is null or part[1] is null or part[2] is not null)
        ) is not true then
            perform pgq._fail_cron(
                format('Field "%s": "%s".', _cron_field.field, left(item, 100))
            );
        end if;

        found_values := found_values || array(
            select g.value
            from generate_series(first_value, last_value, step) as g (value)
        );
    end loop;

    return array(
        select distinct case when _cron_field.highest = 7 then f.value % 7 else f.value end as value
        from unnest(found_values) as f (value)
        order by value
    );
end
$$;

revoke all on function pgq._cron_field from public;

comment on function pgq._cron_field(text, text, integer, integer, text[]) is
'The numbers that a field of a cron expression stands for; refuses what is none (22023).
names: those of the numbers from the lowest on. Where 7 is the highest it is the same as 0.';

create function pgq._cron_times(cron text)
returns pgq._cron_times
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    fields text[] := regexp_split_to_array(
        btrim(
            case lower(btrim(_cron_times.cron) collate "C")
                when '@hourly' then '0 * * * *'
                when '@daily' then '0 0 * * *'
                when '@midnight' then '0 0 * * *'
                when '@weekly' then '0 0 * * 0'
                when '@monthly' then '0 0 1 * *'
                when '@yearly' then '0 0 1 1 *'
                when '@annually' then '0 0 1 1 *'
                else _cron_times.cron
            end,
            E' \t'
        ),
        '[ \t]+'
    );
    times pgq._cron_times;
begin
    if length(_cron_times.cron) > 1000 then
        perform pgq._fail_cron(
            format('It has %s characters, more than 1000.', length(_cron_times.cron))
        );
    end if;
    if cardinality(fields) <> 5 then
        perform pgq._fail_cron(
            format(
                'Given: "%s", which has %s field(s).',
                left(_cron_times.cron, 100),
                cardinality(fields)
            )
        );
    end if;

    times.minutes := pgq._cron_field('minute', fields[1], 0, 59, '{}');
    times.hours := pgq._cron_field('hour', fields[2], 0, 23, '{}');
    times.days := pgq._cron_field('day of month', fields[3], 1, 31, '{}');
    times.months := pgq._cron_field(
        'month', fields[4], 1, 12, '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}'
    );
    times.weekdays := pgq._cron_field(
        'day of week', fields[5], 0, 7, '{sun,mon,tue,wed,thu,fri,sat}'
    );
    times.either_day := fields[3] !~ '^\*' and fields[5] !~ '^\*';
    times.real_time := fields[1] ~ '^\*' or fields[2] ~ '^\*';

    -- Every day of a year falls on every weekday at some time, so only dates that no year has are
    -- left: the first of the days is too late for all of the months.
    if not times.either_day and times.days[1] > (
        select max(case when m.month = 2 then 29 when m.month in (4, 6, 9, 11) then 30 else 31 end)
        from unnest(times.months) as m (month)
    ) then
        raise exception 'argument "cron" must name a time that comes'
            using errcode = '22023',
                detail = format(
                    'Field "day of month": "%s"; field "month": "%s".', fields[3], fields[4]
                );
    end if;
    return times;
end
$$;

revoke all on function pgq._cron_times from public;

comment on function pgq._cron_times(text) is
'What a cron expression says; refuses what is none, and what never comes (22023).';

create function pgq._next_minute(times pgq._cron_times, after timestamp)
returns timestamp
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    day date := _next_minute.after::date;
    hour integer := date_part('hour', _next_minute.after);
    minute integer := date_part('minute', _next_minute.after);
    later integer;
    on_day boolean;
    on_weekday boolean;
begin
    loop
        if not date_part('month', day) = any(_next_minute.times.months) then
            day := date_trunc('month', day::timestamp) + interval '1 month';
            hour := null;
            continue;
        end if;

        on_day := date_part('day', day) = any(_next_minute.times.days);
        on_weekday := date_part('dow', day) = any(_next_minute.times.weekdays);
        if (on_day and on_weekday)
            or (_next_minute.times.either_day and (on_day or on_weekday))
        then
            -- A day that has only just begun has all its times before it; of the first one, look
            -- for a later minute of this hour, then for a later hour.
            if hour is null then
                return day
                    + make_time(_next_minute.times.hours[1], _next_minute.times.minutes[1], 0);
            end if;
            if hour = any(_next_minute.times.hours) then
                later := _next_minute.times.minutes[
                    width_bucket(minute, _next_minute.times.minutes) + 1
                ];
                if later is not null then
                    return day + make_time(hour, later, 0);
                end if;
            end if;
            later := _next_minute.times.hours[width_bucket(hour, _next_minute.times.hours) + 1];
            if later is not null then
                return day + make_time(later, _next_minute.times.minutes[1], 0);
            end if;
        end if;
        day := day + 1;
        hour := null;
    end loop;
end
$$;

revoke all on function pgq._next_minute from public;

comment on function pgq._next_minute(pgq._cron_times, timestamp) is
'The first local time after another one that a cron expression names.
A date that falls on a certain weekday comes after 40 years at most: February 29, beside a year like
2100. So the search is over after some hundred months and days.';

create function pgq._moment_of(
    local_at timestamp,
    time_zone text,
    real_time boolean,
    after timestamptz
)
returns timestamptz
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    -- Of a time that comes twice the second one; of one that is skipped, as much after the gap as
    -- the time lies behind its beginning.
    moment timestamptz := _moment_of.local_at at time zone _moment_of.time_zone;
    day_before timestamptz := moment - interval '24 hours';
    earlier timestamptz;
begin
    if (moment at time zone _moment_of.time_zone) <> _moment_of.local_at then
        if _moment_of.real_time then
            return null;
        end if;
        return (
            select min(g.moment)
            from generate_series(
                moment - ((moment at time zone _moment_of.time_zone) - _moment_of.local_at),
                moment,
                interval '1 minute'
            ) as g (moment)
            where (g.moment at time zone _moment_of.time_zone) > _moment_of.local_at
        );
    end if;

    -- The same local time by the clock of the day before.
    earlier := (
        _moment_of.local_at
        - (
            (day_before at time zone _moment_of.time_zone)
            - (day_before at time zone 'UTC')
        )
    ) at time zone 'UTC';
    if earlier < moment
        and (earlier at time zone _moment_of.time_zone) = _moment_of.local_at
        and (earlier > _moment_of.after or not _moment_of.real_time)
    then
        return earlier;
    end if;
    return moment;
end
$$;

revoke all on function pgq._moment_of from public;

comment on function pgq._moment_of(timestamp, text, boolean, timestamptz) is
'When a local time comes in a time zone whose clocks are put forward and back.
One that is skipped comes at the first moment after the gap, but in real time never (null). One that
comes twice is the first of the two, but in real time the first that is not over.';

create function pgq._cron_tick(times pgq._cron_times, time_zone text, after timestamptz)
returns timestamptz
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    local_after timestamp := _cron_tick.after at time zone _cron_tick.time_zone;
    -- The same local time, or the second one where it comes twice.
    again timestamptz := local_after at time zone _cron_tick.time_zone;
    local_at timestamp;
    moment timestamptz;
    repeated timestamptz;
begin
    -- Where an hour is about to come a second time, local times that were before come after.
    if _cron_tick.times.real_time and again > _cron_tick.after then
        local_at := local_after - (again - _cron_tick.after);
        loop
            local_at := pgq._next_minute(_cron_tick.times, local_at);
            exit when local_at > local_after;
            repeated := pgq._moment_of(local_at, _cron_tick.time_zone, true, _cron_tick.after);
            exit when repeated > _cron_tick.after;
            repeated := null;
        end loop;
    end if;

    local_at := local_after;
    loop
        local_at := pgq._next_minute(_cron_tick.times, local_at);
        moment := pgq._moment_of(
            local_at, _cron_tick.time_zone, _cron_tick.times.real_time, _cron_tick.after
        );
        exit when moment > _cron_tick.after;
    end loop;
    return least(moment, repeated);
end
$$;

revoke all on function pgq._cron_tick from public;

comment on function pgq._cron_tick(pgq._cron_times, text, timestamptz) is
'The first moment after another one that a cron expression names in a time zone.';

create function pgq._next_tick(
    times pgq._cron_times,
    every interval,
    time_zone text,
    starts_at timestamptz,
    after timestamptz
)
returns timestamptz
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    step numeric;
    passed numeric;
begin
    if _next_tick.every is null then
        return pgq._cron_tick(
            _next_tick.times,
            _next_tick.time_zone,
            greatest(_next_tick.after, _next_tick.starts_at - interval '1 microsecond')
        );
    end if;

    -- In microseconds, as which 24 hours are a day, whatever the clocks do in between. An interval
    -- is multiplied as a double: whole days and the rest are exact, centuries of microseconds not.
    step := extract(epoch from _next_tick.every) * 1000000;
    passed := step * greatest(
        0,
        1 + floor(
            (extract(epoch from _next_tick.after) - extract(epoch from _next_tick.starts_at))
            * 1000000 / step
        )
    );
    return _next_tick.starts_at
        + interval '24 hours' * div(passed, 86400000000)::double precision
        + interval '1 microsecond' * mod(passed, 86400000000)::double precision;
end
$$;

revoke all on function pgq._next_tick from public;

comment on function pgq._next_tick(
    pgq._cron_times, interval, text, timestamptz, timestamptz
) is
'The first tick of a schedule after a moment.';

create function pgq._last_tick(
    times pgq._cron_times,
    every interval,
    time_zone text,
    starts_at timestamptz,
    tick_at timestamptz,
    moment timestamptz
)
returns timestamptz
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    found_at timestamptz := _last_tick.tick_at;
    open_until timestamptz := _last_tick.moment;
    middle timestamptz;
    later timestamptz;
begin
    -- By halves: years of minutes take some 20 steps. Ticks are a second apart at least.
    while open_until - found_at >= interval '1 second' loop
        middle := found_at + (open_until - found_at) / 2;
        later := pgq._next_tick(
            _last_tick.times, _last_tick.every, _last_tick.time_zone, _last_tick.starts_at, middle
        );
        if later <= open_until then
            found_at := later;
        else
            open_until := middle;
        end if;
    end loop;
    return found_at;
end
$$;

revoke all on function pgq._last_tick from public;

comment on function pgq._last_tick(
    pgq._cron_times, interval, text, timestamptz, timestamptz, timestamptz
) is
'The last tick of a schedule that is not after a moment, given one that is not.';

create function pgq._check_schedule(settings pgq.schedule_info)
returns void
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
begin
    if num_nonnulls(_check_schedule.settings.topic, _check_schedule.settings.queue) <> 1 then
        raise exception '"topic", "queue": exactly one is needed'
            using errcode = case
                    when _check_schedule.settings.queue is null then '22004' else '22023'
                end,
                hint = 'Pass topic, which gets messages, or queue, which gets jobs.';
    end if;
    if num_nonnulls(_check_schedule.settings.cron, _check_schedule.settings.every) <> 1 then
        raise exception '"cron", "every": exactly one is needed'
            using errcode = case
                    when _check_schedule.settings.cron is null then '22004' else '22023'
                end,
                hint = 'Pass cron, like ''30 8 * * MON-FRI'', or every, like ''1 hour''.';
    end if;

    perform pgq._check_content(
        _check_schedule.settings.payload,
        _check_schedule.settings.headers,
        _check_schedule.settings.body
    );
    if _check_schedule.settings.headers ? 'scheduled_at' then
        raise exception 'argument "headers" must not have "scheduled_at"'
            using errcode = '22023',
                detail = 'The time of the tick travels in this header.';
    end if;

    if _check_schedule.settings.queue is not null then
        perform pgq._check_count('priority', _check_schedule.settings.priority, 0, 9);
        perform pgq._check_label(_check_schedule.settings.label);
    end if;
    if (
        _check_schedule.settings.queue is not null
        and _check_schedule.settings.partition is not null
    )
        or (
            _check_schedule.settings.topic is not null
            and num_nonnulls(
                _check_schedule.settings.priority, _check_schedule.settings.label
            ) > 0
        )
    then
        raise exception 'the target of the schedule has no such setting'
            using errcode = '22023',
                hint = 'partition goes with a topic, priority and label go with a queue.';
    end if;

    if _check_schedule.settings.cron is not null then
        perform pgq._cron_times(_check_schedule.settings.cron);
        perform pgq._check_time_zone(_check_schedule.settings.time_zone);
    else
        perform pgq._check_interval('every', _check_schedule.settings.every, false);
        if date_part('year', _check_schedule.settings.every) > 0
            or date_part('month', _check_schedule.settings.every) > 0
            or _check_schedule.settings.every < interval '1 second'
        then
            raise exception 'argument "every" must be at least a second, without months or years'
                using errcode = '22023',
                    detail = format('Given: %s.', _check_schedule.settings.every),
                    hint = 'A month has no fixed length: use cron for times of the calendar.';
        end if;
        if _check_schedule.settings.time_zone is not null then
            raise exception '"every" and "time_zone" exclude each other'
                using errcode = '22023',
                    hint = 'An interval is counted in real time: a day has 24 hours.';
        end if;
    end if;
    if _check_schedule.settings.missed not in ('skip', 'one', 'all') then
        raise exception 'argument "missed" must be skip, one or all'
            using errcode = '22023';
    end if;
    if not isfinite(_check_schedule.settings.starts_at) then
        raise exception 'argument "starts_at" must be finite'
            using errcode = '22023';
    end if;
end
$$;

revoke all on function pgq._check_schedule from public;

comment on function pgq._check_schedule(pgq.schedule_info) is
'Refuses settings that a schedule cannot have (22004, 22023).';

create function pgq._check_schedule_target(queue text, topic text, partition integer)
returns void
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    partitions integer;
begin
    if _check_schedule_target.queue is not null then
        if not exists (
            select
            from pgq.queue as q
            where q.queue = _check_schedule_target.queue
        ) then
            perform pgq._fail_unknown_queue(_check_schedule_target.queue);
        end if;
        return;
    end if;

    select t.partitions
    into partitions
    from pgq.topic as t
    where t.topic = _check_schedule_target.topic;

    if not found then
        perform pgq._fail_unknown_topic(_check_schedule_target.topic);
    end if;
    if _check_schedule_target.partition not between 0 and partitions - 1 then
        perform pgq._fail_unknown_partition(
            _check_schedule_target.topic, _check_schedule_target.partition, partitions
        );
    end if;
end
$$;

revoke all on function pgq._check_schedule_target from public;

comment on function pgq._check_schedule_target(text, text, integer) is
'Refuses a queue, a topic or a partition that is not there (MQ001, MQ002, MQ007).';

create function pgq._schedule_info(schedule text)
returns setof pgq.schedule_info
language sql
stable
parallel safe
rows 1
as $$
select
    s.schedule,
    s.topic,
    s.queue,
    s.payload,
    s.key,
    s.headers,
    s.cron,
    s.every,
    s.time_zone,
    s.missed,
    s.starts_at,
    s.partition,
    s.priority,
    s.label,
    s.body,
    s.paused,
    s.next_at,
    s.last_at,
    s.last_error,
    s.created_at,
    s.updated_at
from pgq.schedule as s
where s.schedule = _schedule_info.schedule
$$;

revoke all on function pgq._schedule_info from public;

comment on function pgq._schedule_info(text) is
'A schedule and its settings; no row when there is none of that name.';

create function pgq.create_schedule(
    schedule text,
    topic text default null,
    queue text default null,
    payload jsonb default null,
    key text default null,
    headers jsonb default null,
    cron text default null,
    every interval default null,
    time_zone text default null,
    missed text default null,
    starts_at timestamptz default null,
    partition integer default null,
    priority integer default null,
    label text default null,
    body bytea default null
)
returns setof pgq.schedule_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgq._clock();
    settings pgq.schedule_info;
    existing pgq.schedule_info;
    times pgq._cron_times;
begin
    perform pgq._check_name('schedule', create_schedule.schedule collate "C");

    settings.topic := create_schedule.topic;
    settings.queue := create_schedule.queue;
    settings.payload := create_schedule.payload;
    settings.key := create_schedule.key;
    settings.headers := create_schedule.headers;
    settings.cron := create_schedule.cron;
    settings.every := create_schedule.every;
    settings.time_zone := coalesce(
        create_schedule.time_zone, case when create_schedule.cron is not null then 'UTC' end
    );
    settings.missed := coalesce(create_schedule.missed, 'one');
    settings.starts_at := coalesce(create_schedule.starts_at, date_trunc('second', moment));
    settings.partition := create_schedule.partition;
    settings.priority := coalesce(
        create_schedule.priority, case when create_schedule.queue is not null then 0 end
    );
    settings.label := create_schedule.label;
    settings.body := create_schedule.body;
    perform pgq._check_schedule(settings);

    -- One that is there is found without a lock.
    select i.*
    into existing
    from pgq._schedule_info(create_schedule.schedule collate "C") as i;

    if existing.schedule is not null then
        -- An old snapshot may show one that was dropped since; it cannot be locked.
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            perform
            from pgq.schedule as s
            where s.schedule = create_schedule.schedule collate "C"
            for key share;
        end if;

        -- Contents as texts: a null within them is one.
        perform pgq._check_settings_equal(
            'schedule',
            create_schedule.schedule,
            jsonb_build_object(
                'topic', create_schedule.topic,
                'queue', create_schedule.queue,
                'payload', create_schedule.payload::text,
                'key', create_schedule.key,
                'headers', create_schedule.headers::text,
                'cron', create_schedule.cron,
                'every', create_schedule.every,
                'time_zone', create_schedule.time_zone,
                'missed', create_schedule.missed,
                'starts_at', create_schedule.starts_at,
                'partition', create_schedule.partition,
                'priority', create_schedule.priority,
                'label', create_schedule.label,
                'body', create_schedule.body
            ),
            null,
            to_jsonb(existing) || jsonb_build_object(
                'payload', existing.payload::text, 'headers', existing.headers::text
            )
        );
        return next existing;
        return;
    end if;

    perform pgq._check_schedule_target(settings.queue, settings.topic, settings.partition);
    if settings.cron is not null then
        times := pgq._cron_times(settings.cron);
    end if;
    settings.next_at := pgq._next_tick(
        times,
        settings.every,
        settings.time_zone,
        settings.starts_at,
        coalesce(create_schedule.starts_at - interval '1 microsecond', moment)
    );

    insert into pgq.schedule (
        schedule,
        topic,
        queue,
        payload,
        key,
        headers,
        cron,
        every,
        time_zone,
        missed,
        starts_at,
        partition,
        priority,
        label,
        body,
        next_at,
        due_at,
        created_at,
        updated_at
    )
    values (
        create_schedule.schedule,
        settings.topic,
        settings.queue,
        settings.payload,
        settings.key,
        settings.headers,
        settings.cron,
        settings.every,
        settings.time_zone,
        settings.missed,
        settings.starts_at,
        settings.partition,
        settings.priority,
        settings.label,
        settings.body,
        settings.next_at,
        settings.next_at,
        moment,
        moment
    )
    on conflict (schedule) do nothing;

    if not found then
        -- Another transaction has created it in the meantime.
        return query
        select c.*
        from pgq.create_schedule(
            create_schedule.schedule,
            create_schedule.topic,
            create_schedule.queue,
            create_schedule.payload,
            create_schedule.key,
            create_schedule.headers,
            create_schedule.cron,
            create_schedule.every,
            create_schedule.time_zone,
            create_schedule.missed,
            create_schedule.starts_at,
            create_schedule.partition,
            create_schedule.priority,
            create_schedule.label,
            create_schedule.body
        ) as c;
        return;
    end if;

    return query
    select i.*
    from pgq._schedule_info(create_schedule.schedule collate "C") as i;
end
$$;

revoke all on function pgq.create_schedule from public;

comment on function pgq.create_schedule(
    text,
    text,
    text,
    jsonb,
    text,
    jsonb,
    text,
    interval,
    text,
    text,
    timestamptz,
    integer,
    integer,
    text,
    bytea
) is
'Creates a schedule and returns it; one that exists is returned if it has the settings given.
Each tick is written by run_schedules: to a queue as a job, to a topic as a message, with payload
(JSON) or body (raw bytes), and with the time of the tick in the header scheduled_at. cron: minute,
hour, day of month, month and day of week, like 30 8 * * MON-FRI, or a name like @daily; its times
are those of time_zone, by default UTC. every: an interval in real time, counted from starts_at, in
the place of cron. missed: what becomes of ticks that nobody was there to write: one (the last of
them is written, the default), skip (the same, but not when it is more than 5 minutes late), or all.
starts_at: no tick is before, and one at that time counts; by default now. key, headers: go with
each message; partition, for a topic, and priority and label, for a queue: as in publish and
enqueue. So that it can be called at each start of an application, settings that are not given are
not compared.
Errors: MQ001 unknown topic, MQ002 unknown queue, MQ005 the schedule exists with other settings than
those given, MQ007 unknown partition, 22004 a required argument is null, or no target, time or
content, 22023 bad name or setting, 40001 above READ COMMITTED when another transaction was first
(try again).';

create function pgq.alter_schedule(
    schedule text,
    topic text default null,
    queue text default null,
    payload jsonb default null,
    key text default null,
    headers jsonb default null,
    cron text default null,
    every interval default null,
    time_zone text default null,
    missed text default null,
    starts_at timestamptz default null,
    partition integer default null,
    priority integer default null,
    label text default null,
    body bytea default null
)
returns setof pgq.schedule_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    before pgq.schedule_info;
    settings pgq.schedule_info;
    times pgq._cron_times;
begin
    perform
    from pgq.schedule as s
    where s.schedule = alter_schedule.schedule collate "C"
    for no key update;

    if not found then
        perform pgq._fail_unknown_schedule(alter_schedule.schedule collate "C");
    end if;

    select i.*
    into before
    from pgq._schedule_info(alter_schedule.schedule collate "C") as i;

    -- One of a pair takes the place of the other, and what belongs to the other goes with it.
    settings := before;
    if num_nonnulls(alter_schedule.queue, alter_schedule.topic) > 0 then
        settings.topic := alter_schedule.topic;
        settings.queue := alter_schedule.queue;
    end if;
    if num_nonnulls(alter_schedule.payload, alter_schedule.body) > 0 then
        settings.payload := alter_schedule.payload;
        settings.body := alter_schedule.body;
    end if;
    if num_nonnulls(alter_schedule.cron, alter_schedule.every) > 0 then
        settings.cron := alter_schedule.cron;
        settings.every := alter_schedule.every;
    end if;
    settings.key := coalesce(alter_schedule.key, before.key);
    settings.headers := coalesce(alter_schedule.headers, before.headers);
    settings.time_zone := coalesce(
        alter_schedule.time_zone,
        case when settings.cron is not null then coalesce(before.time_zone, 'UTC') end
    );
    settings.missed := coalesce(alter_schedule.missed, before.missed);
    settings.starts_at := coalesce(alter_schedule.starts_at, before.starts_at);
    settings.partition := coalesce(
        alter_schedule.partition, case when settings.topic is not null then before.partition end
    );
    settings.priority := coalesce(
        alter_schedule.priority,
        case when settings.queue is not null then coalesce(before.priority, 0) end
    );
    settings.label := coalesce(
        alter_schedule.label, case when settings.queue is not null then before.label end
    );
    perform pgq._check_schedule(settings);
    if num_nonnulls(
        alter_schedule.queue, alter_schedule.topic, alter_schedule.partition
    ) > 0 then
        perform pgq._check_schedule_target(settings.queue, settings.topic, settings.partition);
    end if;

    -- New times count from now on.
    if (settings.cron, settings.every, settings.time_zone, settings.starts_at)
        is distinct from (before.cron, before.every, before.time_zone, before.starts_at)
    then
        if settings.cron is not null then
            times := pgq._cron_times(settings.cron);
        end if;
        settings.next_at := pgq._next_tick(
            times, settings.every, settings.time_zone, settings.starts_at, pgq._clock()
        );
    end if;

    update pgq.schedule as s
    set
        topic = settings.topic,
        queue = settings.queue,
        payload = settings.payload,
        key = settings.key,
        headers = settings.headers,
        cron = settings.cron,
        every = settings.every,
        time_zone = settings.time_zone,
        missed = settings.missed,
        starts_at = settings.starts_at,
        partition = settings.partition,
        priority = settings.priority,
        label = settings.label,
        body = settings.body,
        next_at = settings.next_at,
        due_at = settings.next_at,
        updated_at = pgq._clock()
    where s.schedule = alter_schedule.schedule collate "C";

    return query
    select i.*
    from pgq._schedule_info(alter_schedule.schedule collate "C") as i;
end
$$;

revoke all on function pgq.alter_schedule from public;

comment on function pgq.alter_schedule(
    text,
    text,
    text,
    jsonb,
    text,
    jsonb,
    text,
    interval,
    text,
    text,
    timestamptz,
    integer,
    integer,
    text,
    bytea
) is
'Changes settings of a schedule and returns it; what is null stays as it is.
See create_schedule for the settings. Of queue and topic, cron and every, payload and body, the one
that is given takes the place of the other. When cron, every, time_zone or starts_at changes, ticks
count from now on: what was due before and is not written is left out. It waits for a run_schedules
that is writing a tick of the schedule.
Errors: MQ001 unknown topic, MQ002 unknown queue, MQ007 unknown partition, MQ009 unknown schedule,
22004 a required argument is null, 22023 bad settings, 40001 above READ COMMITTED when another
transaction was first (try again).';

create function pgq.drop_schedule(schedule text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    delete from pgq.schedule as s
    where s.schedule = drop_schedule.schedule collate "C";

    if not found then
        perform pgq._fail_unknown_schedule(drop_schedule.schedule collate "C");
    end if;
end
$$;

revoke all on function pgq.drop_schedule from public;

comment on function pgq.drop_schedule(text) is
'Removes a schedule; what it has written stays.
It waits for a run_schedules that is writing a tick of the schedule.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';

create function pgq.list_schedules(schedule text default null)
returns setof pgq.schedule_info
language plpgsql
stable
parallel safe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select i.*
    from pgq.schedule as s
    cross join lateral pgq._schedule_info(s.schedule) as i
    where s.schedule = coalesce(list_schedules.schedule collate "C", s.schedule)
    order by s.schedule;

    if not found and list_schedules.schedule is not null then
        perform pgq._fail_unknown_schedule(list_schedules.schedule collate "C");
    end if;
end
$$;

revoke all on function pgq.list_schedules from public;

comment on function pgq.list_schedules(text) is
'A schedule, or all of them, by name: settings, next and last tick, and the last error.
Errors: MQ009 unknown schedule.';

create function pgq.pause_schedule(schedule text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    update pgq.schedule as s
    set paused = true
    where s.schedule = pause_schedule.schedule collate "C";

    if not found then
        perform pgq._fail_unknown_schedule(pause_schedule.schedule collate "C");
    end if;
end
$$;

revoke all on function pgq.pause_schedule from public;

comment on function pgq.pause_schedule(text) is
'Has run_schedules leave out a schedule until resume_schedule; a paused schedule stays paused.
It waits for a run_schedules that is writing a tick of the schedule.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';

create function pgq.resume_schedule(schedule text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    update pgq.schedule as s
    set paused = false
    where s.schedule = resume_schedule.schedule collate "C";

    if not found then
        perform pgq._fail_unknown_schedule(resume_schedule.schedule collate "C");
    end if;
end
$$;

revoke all on function pgq.resume_schedule from public;

comment on function pgq.resume_schedule(text) is
'Has run_schedules write the ticks of a schedule again; nothing changes if it is not paused.
Those that came during the pause were missed: the setting missed says what becomes of them.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';

create function pgq.next_ticks(
    cron text,
    time_zone text default null,
    after timestamptz default null,
    max_ticks integer default null
)
returns table (tick_at timestamptz)
language plpgsql
stable
parallel safe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    zone text := coalesce(next_ticks.time_zone, 'UTC');
    wanted integer := coalesce(next_ticks.max_ticks, 10);
    moment timestamptz := coalesce(next_ticks.after, pgq._clock());
    times pgq._cron_times;
begin
    if next_ticks.cron is null then
        raise exception 'argument "cron" must not be null'
            using errcode = '22004';
    end if;
    perform pgq._check_time_zone(zone collate "C");
    perform pgq._check_count('max_ticks', wanted, 1, 100000);
    if not isfinite(moment) then
        raise exception 'argument "after" must be finite'
            using errcode = '22023';
    end if;

    times := pgq._cron_times(next_ticks.cron collate "C");
    for n in 1 .. wanted loop
        moment := pgq._cron_tick(times, zone collate "C", moment);
        tick_at := moment;
        return next;
    end loop;
end
$$;

revoke all on function pgq.next_ticks from public;

comment on function pgq.next_ticks(text, text, timestamptz, integer) is
'The next times that a cron expression names, to try it out before it is used.
See create_schedule for cron and time_zone. after: by default now. max_ticks: how many, by default
10.
Errors: 22004 a required argument is null, 22023 bad argument.';

create function pgq._run_schedule(schedule text, moment timestamptz, max_ticks integer)
returns setof pgq.schedule_run
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.schedule;
    times pgq._cron_times;
    run pgq.schedule_run;
    following timestamptz;
    tick_headers jsonb;
begin
    -- The caller has locked the row.
    select s.*
    into target
    from pgq.schedule as s
    where s.schedule = _run_schedule.schedule;

    if target.cron is not null then
        times := pgq._cron_times(target.cron);
    end if;

    run.schedule := target.schedule;
    following := target.next_at;
    if target.missed <> 'all' then
        following := pgq._last_tick(
            times,
            target.every,
            target.time_zone,
            target.starts_at,
            target.next_at,
            _run_schedule.moment
        );
    end if;

    for n in 1 .. _run_schedule.max_ticks loop
        exit when following > _run_schedule.moment;
        run.tick_at := following;
        following := pgq._next_tick(
            times, target.every, target.time_zone, target.starts_at, run.tick_at
        );
        continue when target.missed = 'skip'
            and run.tick_at < _run_schedule.moment - interval '5 minutes';

        tick_headers := coalesce(target.headers, '{}') || jsonb_build_object(
            'scheduled_at', (to_jsonb(run.tick_at at time zone 'UTC') #>> '{}') || '+00:00'
        );
        if target.queue is not null then
            select e.job_id
            into run.job_id
            from pgq.enqueue(
                queue => target.queue,
                payload => target.payload,
                key => target.key,
                headers => tick_headers,
                priority => target.priority,
                label => target.label,
                body => target.body
            ) as e;
        else
            select p.partition, p.log_offset
            into run.partition, run.log_offset
            from pgq.publish(
                topic => target.topic,
                payload => target.payload,
                key => target.key,
                headers => tick_headers,
                partition => target.partition,
                body => target.body
            ) as p;
        end if;
        target.last_at := run.tick_at;
        target.last_error := null;
        return next run;
    end loop;

    -- What may not be written any more by this call waits behind what is due by now.
    update pgq.schedule as s
    set
        next_at = following,
        due_at = greatest(following, _run_schedule.moment),
        last_at = target.last_at,
        last_error = target.last_error
    where s.schedule = target.schedule;
end
$$;

revoke all on function pgq._run_schedule from public;

comment on function pgq._run_schedule(text, timestamptz, integer) is
'Writes what is due of a schedule at a moment, at most so many ticks, and moves its next tick.';

create function pgq.run_schedules(max_ticks integer default null)
returns setof pgq.schedule_run
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    wanted integer := coalesce(run_schedules.max_ticks, 1000);
    moment timestamptz := pgq._clock();
    due text[];
    name text;
    problem text;
begin
    perform pgq._check_count('max_ticks', wanted, 1, 100000);

    -- What another caller is about to write is left to it. Above READ COMMITTED a row that another
    -- one has changed since cannot be locked, which is 40001.
    with locked as materialized (
        select s.schedule
        from pgq.schedule as s
        where s.due_at <= moment
            and not s.paused
        order by s.due_at
        limit wanted
        for update skip locked
    )

    select array_agg(l.schedule)
    into due
    from locked as l;

    -- Partitions are locked in ascending order; messages that go to any that is free come after
    -- those whose partition is fixed, as they need not wait.
    for name in
        select s.schedule
        from pgq.schedule as s
        left join pgq.partition as p on p.topic = s.topic and p.partition = 0
        where s.schedule = any(due)
        order by
            s.topic nulls first,
            coalesce(
                s.partition,
                (hashtextextended(s.key, 0) % p.partitions + p.partitions) % p.partitions
            ) nulls last,
            s.next_at,
            s.schedule
    loop
        begin
            -- One that has many ticks to make up for leaves room for the others.
            return query
            select r.*
            from pgq._run_schedule(name, moment, wanted / cardinality(due)) as r;
        exception
            when invalid_parameter_value or sqlstate 'MQ001' or sqlstate 'MQ002'
                or sqlstate 'MQ007'
            then
                problem := format('%s: %s', sqlstate, sqlerrm);
                return query
                update pgq.schedule as s
                set
                    due_at = moment + interval '1 minute',
                    last_error = problem
                where s.schedule = name
                returning
                    s.schedule,
                    s.next_at,
                    null::bigint,
                    null::integer,
                    null::bigint,
                    s.last_error;
        end;
    end loop;
end
$$;

revoke all on function pgq.run_schedules from public;

comment on function pgq.run_schedules(integer) is
'Writes the ticks of all schedules that are due, each of them once, whoever calls it.
Call it every minute or more often, from wherever you like; several at once share the work. A tick
is written in the transaction of the call, so commit soon: what it has found is left alone by others
until then. At most max_ticks (by default 1000) are written, shared out among the schedules that are
due; what is left comes with the next call. When a target is not there, or refuses what is written,
the row says so in error and the others go on; the tick is tried again a minute later, and is then
one that was missed.
Errors: 22023 bad argument, 40001 above READ COMMITTED when another transaction was first (try
again).';

create or replace function pgq._clean_leftovers(
    started pg_snapshot,
    horizon xid8,
    moment timestamptz
)
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.leftover;
    budget bigint := 10000;
    removed bigint;
    archived bigint;
begin
    perform pgq._void_leftovers();

    for target in
        select o.*
        from pgq.leftover as o
        where o.remove_at <= _clean_leftovers.moment
            and (
                o.horizon is null
                or o.horizon <= pg_snapshot_xmin(_clean_leftovers.started)
                or o.horizon >= pg_snapshot_xmax(pg_current_snapshot())
            )
        order by o.remove_at
        for update skip locked
    loop
        -- What goes, goes from sight first.
        perform pgq._hide_leftover(target);

        -- Jobs that live on keep their payloads, elsewhere: those of a queue, or those that point
        -- at messages of a topic.
        return query
        select r.*
        from pgq._carry_jobs(
            target.segment,
            target.queue_id,
            case when target.queue_id is null then target.partition_id end,
            _clean_leftovers.moment,
            budget::integer
        ) as r;

        -- Messages whose jobs are not all carried stay for now, with all of their partition.
        if target.queue_id is null
            and pgq._has_jobs(target.segment, null, target.partition_id)
        then
            return next row('segment busy', target.segment::text, 1)::pgq.cleanup_action;
            continue;
        end if;

        execute format(
            'delete from pgq.message_%1$s as m
            where m.partition_id = $1
                and m.log_offset = any(array(
                    select n.log_offset
                    from pgq.message_%1$s as n
                    where n.partition_id = $1
                        and n.log_offset between $2 and $3
                        and not exists (
                            select
                            from pgq.job as j
                            where j.job_id = n.log_offset
                                and j.partition_id = $1
                                and j.segment = %1$s
                        )
                        and not exists (
                            select
                            from pgq.dead_job as d
                            where d.job_id = n.log_offset
                                and d.partition_id = $1
                                and d.segment = %1$s
                        )
                    order by n.log_offset
                    limit $4
                ))',
            target.segment
        )
        using target.partition_id, target.first_offset, target.last_offset, budget;
        get diagnostics removed = row_count;
        budget := budget - removed;

        archived := 0;
        if target.queue_id is not null and budget > 0 then
            archived := pgq._remove_archived(target.segment, target.queue_id, budget);
            budget := budget - archived;
        end if;

        if removed + archived > 0 then
            return next row(
                'leftovers removed', target.segment::text, removed + archived
            )::pgq.cleanup_action;
        end if;
        if budget <= 0 then
            return next row('more', 'leftovers', 1)::pgq.cleanup_action;
            return;
        end if;

        -- Jobs that were locked are looked for again.
        continue when target.queue_id is not null
            and pgq._has_jobs(target.segment, target.queue_id, null);

        -- An enqueue that began before this was noted may store a job when it is over. So there is
        -- a second look, behind all that had an id before the note was seen, and none between. One
        -- that is too high is from before a restore into another cluster.
        if target.noted_xid is not null
            and (
                target.horizon is null
                or target.horizon >= pg_snapshot_xmax(pg_current_snapshot())
            )
        then
            update pgq.leftover as o
            set horizon = _clean_leftovers.horizon
            where o.partition_id = target.partition_id
                and o.segment = target.segment
                and o.first_offset = target.first_offset
                and (
                    pg_visible_in_snapshot(target.noted_xid, _clean_leftovers.started)
                    or target.noted_xid >= pg_snapshot_xmax(pg_current_snapshot())
                );
            continue;
        end if;

        delete from pgq.leftover as o
        where o.partition_id = target.partition_id
            and o.segment = target.segment
            and o.first_offset = target.first_offset;
    end loop;
end
$$;

create function pgq._clean_windows(
    started pg_snapshot,
    horizon xid8,
    moment timestamptz
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- One that ends too late was noted while the clock was ahead.
    update pgq.former_window as f
    set ends_at = _clean_windows.moment + f.keep
    where f.ends_at > _clean_windows.moment + f.keep;

    -- As in _close_segments: once all have ended who may know nothing but the former window, no
    -- more keys are noted by it. What they noted counts from now at most. An id from before a
    -- restore into another cluster may lie in the future here.
    update pgq.former_window as f
    set ends_at = _clean_windows.moment + f.keep
    where f.ends_at is null
        and f.horizon <= pg_snapshot_xmin(_clean_windows.started);

    update pgq.former_window as f
    set horizon = _clean_windows.horizon
    where f.ends_at is null
        and (
            f.horizon is null
            or f.horizon >= pg_snapshot_xmax(pg_current_snapshot())
        )
        and (
            pg_visible_in_snapshot(f.noted_xid, _clean_windows.started)
            or f.noted_xid >= pg_snapshot_xmax(pg_current_snapshot())
        );

    delete from pgq.former_window as f
    where f.ends_at <= _clean_windows.moment;
end
$$;

revoke all on function pgq._clean_windows from public;

comment on function pgq._clean_windows(pg_snapshot, xid8, timestamptz) is
'The part of cleanup that forgets former windows of idempotency keys.';

create or replace function pgq._close_segments(
    started pg_snapshot,
    horizon xid8,
    moment timestamptz
)
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
    row_xid bigint;
    own_xid bigint := pg_current_xact_id()::text::bigint;
begin
    for target in
        select s.segment
        from pgq.segment as s
        where s.state = 'sealed'
            and (
                s.horizon is null
                and (
                    s.sealed_xid < pg_snapshot_xmin(_close_segments.started)
                    or s.sealed_xid >= pg_snapshot_xmax(pg_current_snapshot())
                )
                -- one that this transaction sealed looks like one of the future
                and s.sealed_xid <> pg_current_xact_id()
                or s.horizon >= pg_snapshot_xmax(pg_current_snapshot())
            )
        for update skip locked
    loop
        -- Note from which transaction on nobody can write to it any more: an id taken after it was
        -- seen sealed. Where this transaction had its own before, the row has one, for cleanup does
        -- each of its parts in a subtransaction. An id from before a restore into another cluster
        -- may lie in the future here: all its contemporaries are gone.
        update pgq.segment as s
        set horizon = _close_segments.horizon
        where s.segment = target.segment
        returning s.xmin::text::bigint
        into row_xid;

        continue when _close_segments.horizon is not null;

        row_xid := row_xid + (own_xid >> 32 << 32);
        if row_xid < own_xid then
            row_xid := row_xid + (1::bigint << 32);
        end if;

        update pgq.segment as s
        set horizon = row_xid::text::xid8
        where s.segment = target.segment;
    end loop;

    -- Partitions that had no message since still point to a sealed one.
    if pgq._settle_partitions(null, 1000) = 1000 then
        return next row('more', 'closing', 1)::pgq.cleanup_action;
    end if;

    for target in
        select s.segment
        from pgq.segment as s
        where s.state = 'sealed'
            and s.horizon <= pg_snapshot_xmin(_close_segments.started)
        order by s.segment
        for update skip locked
    loop
        -- A publisher may hold one of them.
        continue when exists (select from pgq.partition as p where p.segment = target.segment);
        continue when not pgq._leave_segment(target.segment);

        update pgq.segment as s
        set
            state = 'closed',
            closed_at = _close_segments.moment
        where s.segment = target.segment;

        return next row('segment closed', target.segment::text, 1)::pgq.cleanup_action;
    end loop;
end
$$;

create or replace function pgq._class_in_use(storage_class_id bigint)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    return exists (
        select from pgq.topic as t where t.storage_class_id = _class_in_use.storage_class_id
    ) or exists (
        select from pgq.queue as q where q.storage_class_id = _class_in_use.storage_class_id
    ) or exists (
        -- A class for keys stays until nobody has a window of this length. A call that is the first
        -- one to note a key in it does not say so in its row, which would make others wait.
        select
        from pgq.storage_class as c
        where c.storage_class_id = _class_in_use.storage_class_id
            and c.owner_id is null
            and (c.for_keys or pgq._has_keys(c.segment))
            and (
                exists (
                    select
                    from pgq.topic as t
                    where interval_send(t.idempotency_window) = interval_send(c.retention)
                )
                or exists (
                    select
                    from pgq.queue as q
                    where interval_send(q.idempotency_window) = interval_send(c.retention)
                )
                or exists (
                    select
                    from pgq.former_window as f
                    where interval_send(f.idempotency_window) = interval_send(c.retention)
                )
            )
    );
end
$$;

comment on function pgq._class_in_use(bigint) is
'Whether a topic or a queue keeps its messages, or its idempotency keys, in a storage class.';

create or replace function pgq._seal_segment(storage_class_id bigint, moment timestamptz, wait boolean)
returns integer
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    class pgq.storage_class;
    leaf integer;
    used boolean;
    filled boolean;
begin
    -- Whoever enters its segment holds this row, and would wait, so it is locked only when there is
    -- something to do.
    if not pgq._segment_due(_seal_segment.storage_class_id, _seal_segment.moment) then
        return null;
    end if;

    select c.*
    into class
    from pgq.storage_class as c
    where c.storage_class_id = _seal_segment.storage_class_id
    for update skip locked;

    if class.storage_class_id is null
        or not pgq._segment_due(_seal_segment.storage_class_id, _seal_segment.moment)
    then
        return null;
    end if;

    if not _seal_segment.wait then
        -- What would have to be waited for is left to the next cleanup.
        perform
        from pgq.queue as q
        where q.storage_class_id = class.storage_class_id
        for no key update nowait;
    end if;

    used := pgq._class_in_use(class.storage_class_id);

    if class.segment is null then
        -- Nobody keeps anything in this class any more.
        if not used
            and not exists (
                select from pgq.segment as s
                where s.storage_class_id = class.storage_class_id
            )
        then
            delete from pgq.storage_class as c
            where c.storage_class_id = class.storage_class_id;
        end if;
        return null;
    end if;

    execute format(
        'select exists (select from pgq.message_%1$s as m where m.partition_id > 0)
            or exists (select from pgq.job_archive_%1$s)
            or exists (select from pgq.idempotency_%1$s)',
        class.segment
    )
    into filled;
    if used and not filled then
        -- An empty segment does not age.
        update pgq.segment as s
        set opened_at = _seal_segment.moment
        where s.segment = class.segment;
        return null;
    end if;

    leaf := class.segment;
    update pgq.segment as s
    set
        state = 'sealed',
        sealed_at = _seal_segment.moment,
        sealed_xid = pg_current_xact_id()
    where s.segment = leaf;

    if used then
        if not class.for_keys and pgq._has_keys(leaf) then
            update pgq.storage_class as c
            set for_keys = true
            where c.storage_class_id = class.storage_class_id;
        end if;
        class.segment := pgq._open_segment(class.storage_class_id);
    else
        update pgq.storage_class as c
        set segment = null
        where c.storage_class_id = class.storage_class_id;
    end if;

    perform pgq._settle_queues(class.storage_class_id, class.segment);

    return leaf;
end
$$;

create or replace function pgq._truncate_segment(segment integer, wait boolean)
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    -- Most segments have no keys: an empty leaf is left as it is.
    tables text := format(
        case
            when pg_relation_size(to_regclass('pgq.idempotency_' || _truncate_segment.segment)) > 0
                then 'pgq.message_%1$s, pgq.job_archive_%1$s, pgq.idempotency_%1$s'
            else 'pgq.message_%1$s, pgq.job_archive_%1$s'
        end,
        _truncate_segment.segment
    );
begin
    -- Only those who read this very segment block this. Wait a moment at most, and try again
    -- next time: whoever reads behind us would wait as well.
    begin
        execute format(
            'lock table %s in access exclusive mode %s',
            tables,
            case when not _truncate_segment.wait then 'nowait' end
        );
        execute format('truncate %s', tables);
    exception
        -- the second: this session reads it itself, by an open cursor
        when lock_not_available or object_in_use then
            return next row(
                'segment busy', _truncate_segment.segment::text, 1
            )::pgq.cleanup_action;
            return;
    end;

    perform pgq._forget_segment(_truncate_segment.segment);
    delete from pgq.leftover as o
    where o.segment = _truncate_segment.segment;
    delete from pgq.segment as s
    where s.segment = _truncate_segment.segment;
    update pgq.leaf as l
    set free = true
    where l.leaf = _truncate_segment.segment;

    return next row('segment truncated', _truncate_segment.segment::text, 1)::pgq.cleanup_action;
end
$$;

create or replace function pgq._truncate_segments(moment timestamptz)
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
    bytes bigint;
    budget bigint := 10000;
    report pgq.cleanup_action;
    met_reader boolean := false;
    -- One call does so many: it keeps locks on all of their tables.
    room integer := 100;
    unfinished boolean := false;
begin
    -- The clock was ahead when they were closed.
    update pgq.segment as s
    set closed_at = _truncate_segments.moment
    where s.closed_at > _truncate_segments.moment;

    for target in
        select
            s.segment,
            c.retention,
            c.max_bytes,
            c.storage_class_id,
            s.closed_at,
            c.segment is null
            and not exists (
                select from pgq.segment_range as r where r.segment = s.segment
            ) as out_of_use,
            false as due
        from pgq.segment as s
        inner join pgq.storage_class as c on c.storage_class_id = s.storage_class_id
        where s.state = 'closed'
        order by s.closed_at
        for update of s skip locked
    loop
        bytes := null;
        if target.max_bytes is not null then
            select sum(pg_table_size(('pgq.message_' || s.segment)::regclass))
            into bytes
            from pgq.segment as s
            where s.storage_class_id = target.storage_class_id
                and s.segment <> target.segment;
        end if;

        target.due := coalesce(
            target.closed_at + target.retention <= _truncate_segments.moment
            or bytes >= target.max_bytes,
            false
        );
        continue when not target.due
            and (
                not target.out_of_use
                or pgq._has_archived(target.segment)
                or pgq._has_keys(target.segment)
            );

        -- Jobs that live on get their payloads elsewhere first: nobody waits for that.
        if budget > 0 then
            for report in
                select r.*
                from pgq._carry_jobs(
                    target.segment, null, null, _truncate_segments.moment, budget::integer
                ) as r
            loop
                budget := budget - report.amount;
                return next report;
            end loop;
        end if;

        -- None can come to it any more: it is closed, and who changes a job leaves the payload
        -- where it is.
        if pgq._has_jobs(target.segment, null, null) then
            if budget > 0 then
                return next row('segment busy', target.segment::text, 1)::pgq.cleanup_action;
            else
                unfinished := true;
            end if;
            continue;
        end if;

        -- Only now: what finishes a job notes it in the segment of its payload.
        continue when not target.due and pgq._has_archived(target.segment);

        -- One reader of all segments costs one wait.
        for report in
            select r.*
            from pgq._truncate_segment(target.segment, not met_reader) as r
        loop
            met_reader := met_reader or report.action = 'segment busy';
            room := room - (report.action = 'segment truncated')::integer;
            return next report;
        end loop;
        exit when room = 0;
    end loop;

    if unfinished or room = 0 then
        return next row('more', 'truncation', 1)::pgq.cleanup_action;
    end if;
end
$$;

create or replace function pgq.cleanup()
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set lock_timeout = '200ms'
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    -- An id that is higher than all that run now: not if this transaction had one before.
    started pg_snapshot := pg_current_snapshot();
    horizon xid8 := case
        when pg_current_xact_id_if_assigned() is null then pg_current_xact_id()
    end;
    moment timestamptz := pgq._clock();
    part text;
begin
    perform pgq._check_read_committed('cleanup');

    -- A part that meets a lock is undone and reported as busy, the others are done. What locks
    -- rows that consumers and publishers need comes last: behind all that may wait or take long.
    foreach part in array array[
        'jobs',
        'effects',
        'subscriptions',
        'writes',
        'leftovers',
        'truncation',
        'positions',
        'windows',
        'offsets',
        'closing',
        'sealing'
    ] loop
        begin
            case part
                when 'jobs' then
                    return query
                    select r.* from pgq._clean_jobs(started, horizon, moment) as r;
                when 'effects' then
                    return query
                    select r.* from pgq._clean_effects() as r;
                when 'subscriptions' then
                    perform pgq._clean_subscriptions();
                when 'positions' then
                    return query
                    select r.* from pgq._clean_positions() as r;
                when 'writes' then
                    return query
                    select r.* from pgq._clean_writes(moment) as r;
                when 'leftovers' then
                    return query
                    select r.* from pgq._clean_leftovers(started, horizon, moment) as r;
                when 'windows' then
                    perform pgq._clean_windows(started, horizon, moment);
                when 'offsets' then
                    return query
                    select r.* from pgq._assign_staged() as r;
                when 'closing' then
                    return query
                    select r.* from pgq._close_segments(started, horizon, moment) as r;
                when 'sealing' then
                    return query
                    select r.* from pgq._seal_segments(moment) as r;
                when 'truncation' then
                    return query
                    select r.* from pgq._truncate_segments(moment) as r;
            end case;
        exception
            when lock_not_available then
                return next row('busy', part, 1)::pgq.cleanup_action;
        end;
    end loop;
end
$$;

comment on function pgq.cleanup() is
'Does the housekeeping, and returns what was done, a row per thing.
Call it every minute or so, from cron or pg_cron or any client; delivery never depends on it, disk
space does. One call does a bounded piece of work, and waits 0.2 s at most for a lock. Several at
once do no harm.
What it does, by the action that the row has:
- jobs expired: unfinished jobs of a queue, past its job_ttl, are removed;
- jobs died: jobs of a queue, whose worker was lost on the last attempt, are dead letters now;
- dead letters removed: those of a queue, past its retention;
- floor lowered: claims of a queue begin further in front again, after the clock went back;
- effects removed: notes of `begin_effect` about jobs that have ended;
- positions trimmed: old positions of a group, which nothing needs any more, are removed;
- offsets assigned: messages of a deferred topic, which nobody consumed yet, got their offsets;
- bulk write forgotten: it was not committed within its timeout, or what it writes to was dropped;
- staged write removed: nothing is left of what was staged for a write that was given up;
- leftovers removed: what a segment had from a time without a retention, and is not kept any more;
- segment sealed: new messages go to another segment from now on;
- segment closed: nothing is added to it any more;
- payloads moved: those of jobs that live on, and of dead letters, to another segment;
- segment truncated: it is older than its retention, or not needed for max_bytes, and empty now;
- segment busy: it is due as well, but somebody reads it or works on its jobs; a later call goes on;
- busy: a part of the work met a lock; what it did is undone, and the next call does it;
- more: a part of the work has more to do than one call does; call again at once.
Errors: 25001 not under READ COMMITTED.';

create or replace view pgq.group_lag
with (security_barrier) as
select
    l.topic,
    l.consumer_group,
    l.partition,
    q.next_offset - 1 as committed_offset,
    s.last_offset,
    s.last_offset - q.next_offset + 1 as lag,
    s.published_at as oldest_published_at,
    case when q.leased_until > pgq._clock() then q.leased_until end as leased_until,
    coalesce(q.attempt, 0) as attempt,
    q.last_error
from pgq.group_partition as l
inner join pgq.partition as p on p.partition_id = l.partition_id
cross join lateral (
    select j.next_offset, j.leased_until, j.attempt, j.last_error
    from pgq.group_position as j
    where j.group_id = l.group_id
        and j.partition = l.partition
    order by j.seq desc
    limit 1
) as q
cross join lateral pgq._partition_figures(
    (select k.key from pgq.view_key as k),
    p.partition_id,
    p.segment,
    p.segment_first_offset,
    q.next_offset,
    null
) as s;

comment on column pgq.group_lag.leased_until is
'Until when a member has the partition, or nobody gets it after a nack_offsets; null: neither.';

comment on column pgq.group_lag.attempt is
'How many attempts there were at the next message, with the one under way; they are counted in
groups with a max_attempts.';

comment on column pgq.group_lag.last_error is
'How the last of them failed; null: it did not, or nobody has said how.';

create or replace view pgq.queue_stats
with (security_barrier) as
select
    q.queue,
    coalesce(s.ready, 0) as ready,
    coalesce(s.leased, 0) as leased,
    coalesce(s.delayed, 0) as delayed,
    coalesce(s.expired, 0) as expired,
    (select count(*) from pgq.dead_job as d where d.queue_id = q.queue_id) as dead,
    s.oldest as oldest_ready_at,
    q.paused,
    coalesce(s.waiting, 0) as waiting,
    case
        when q.paused then 'paused'
        when s.leased >= q.max_leased then 'max_leased'
        when
            n.credit / n.job_cost
            + greatest(extract(epoch from c.moment - n.refilled_at), 0)
            * q.rate_limit / extract(epoch from q.rate_interval) < 1
            then 'rate_limit'
    end as held_by,
    coalesce(s.unfinished >= q.max_unfinished, false) as is_full
from pgq.queue as q
cross join lateral (select pgq._clock() as moment limit 1) as c
cross join lateral (
    select
        sum(j.jobs) filter (where not e.expired and j.visible_at <= c.moment) as ready,
        sum(j.jobs) filter (where j.visible_at > c.moment and j.lease_token is not null) as leased,
        sum(j.jobs) filter (
            where not e.expired and j.visible_at > c.moment and j.lease_token is null
            and j.due_at is null
        ) as delayed,
        sum(j.jobs) filter (where not e.expired and j.due_at is not null) as waiting,
        sum(j.jobs) filter (
            where e.expired and not (j.visible_at > c.moment and j.lease_token is not null)
        ) as expired,
        min(j.visible_at) filter (where not e.expired and j.visible_at <= c.moment) as oldest,
        count(*) filter (where not j.is_run) as unfinished
    from (
        select k.visible_at, k.expires_at, k.lease_token, k.due_at, 1 as jobs, false as is_run
        from pgq.job as k
        where k.queue_id = q.queue_id
        union all
        select
            r.visible_at,
            r.expires_at,
            null as lease_token,
            null as due_at,
            r.jobs,
            true as is_run
        from pgq.job_run as r
        where r.queue_id = q.queue_id
    ) as j
    cross join lateral (
        select coalesce(j.expires_at <= c.moment, false) as expired
    ) as e
) as s
left join lateral (
    select l.job_cost, l.credit, l.refilled_at
    from pgq.claim_count as l
    where l.queue_id = q.queue_id
    order by l.seq desc
    limit 1
) as n on true;

comment on column pgq.queue_stats.waiting is
'Jobs of an ordered queue that wait for another one of their key.';

comment on column pgq.queue_stats.held_by is
'Why claims get nothing now, whatever is due: paused, max_leased or rate_limit; null: they do.';

comment on column pgq.queue_stats.is_full is
'Whether enqueue fails now: there are as many unfinished jobs as max_unfinished, or more.';

create or replace view pgq.dead_letters
with (security_barrier) as
select
    q.queue,
    d.job_id,
    d.attempt,
    d.last_error,
    m.published_at as enqueued_at,
    d.died_at,
    d.priority::integer as priority,
    m.key,
    d.label,
    m.headers,
    m.payload,
    m.body,
    d.stops_key
from pgq.dead_job as d
inner join pgq.queue as q on q.queue_id = d.queue_id
left join pgq.message as m
    on m.segment = d.segment
    and m.partition_id = d.partition_id
    and m.log_offset = d.log_offset;

comment on column pgq.dead_letters.stops_key is
'Whether the jobs of its key wait until it is redriven or removed; see create_queue.';

comment on view pgq.archived_jobs is
'Jobs that were finished or cancelled or have expired, until they are older than the retention of
their queue.';

comment on column pgq.archived_jobs.outcome is
'acked, expired, cancelled, or what archive_job was told.';

comment on column pgq.archived_jobs.ended_at is 'When it was finished or cancelled, or expired.';

create view pgq.effects
with (security_barrier) as
select
    q.queue,
    e.job_id,
    e.effect,
    case
        when e.finished_at is not null then 'finished'
        when j.lease_token = e.lease_token and j.visible_at > c.moment then 'begun'
        else 'interrupted'
    end as state,
    e.result,
    e.attempt,
    e.begun_at,
    e.finished_at,
    e.lease_token
from pgq.effect as e
cross join lateral (select pgq._clock() as moment limit 1) as c
left join pgq.job as j on j.job_id = e.job_id
left join pgq.dead_job as d on d.job_id = e.job_id
inner join pgq.queue as q on q.queue_id = coalesce(j.queue_id, d.queue_id);

comment on view pgq.effects is
'Effects of jobs that are to happen once, as long as the jobs are not finished; see begin_effect.';

comment on column pgq.effects.queue is 'The queue.';

comment on column pgq.effects.job_id is 'The id of the job.';

comment on column pgq.effects.effect is 'Which of the effects of the job.';

comment on column pgq.effects.state is
'begun: its worker may be at it; finished: it has happened; interrupted: its worker has lost the job
or given it back, and nobody knows whether it happened.';

comment on column pgq.effects.result is 'What finish_effect was given; null: nothing.';

comment on column pgq.effects.attempt is 'Which attempt of the job began it.';

comment on column pgq.effects.begun_at is 'When that was.';

comment on column pgq.effects.finished_at is
'When it was noted that it has happened; null: nobody has said so.';

comment on column pgq.effects.lease_token is
'What finish_effect and forget_effect ask for, to say what became of it.';

create view pgq.publish_rows as
select
    null::text as topic,
    null::text as payload,
    null::text as key,
    null::text as headers,
    null::integer as partition,
    null::text as idempotency_key,
    null::bytea as body
where false;

create or replace trigger publish_rows
instead of insert on pgq.publish_rows
for each row execute function pgq._publish_row();

comment on view pgq.publish_rows is
'Always empty; a row that is inserted is a call of publish.';

comment on column pgq.publish_rows.topic is 'The topic.';

comment on column pgq.publish_rows.payload is 'Its content as JSON; null when it has a body.';

comment on column pgq.publish_rows.key is 'The key of the message; null: none.';

comment on column pgq.publish_rows.headers is 'Its headers, a JSON object; null: none.';

comment on column pgq.publish_rows.partition is 'The partition to publish to; null: see publish.';

comment on column pgq.publish_rows.idempotency_key is
'What makes it the same when it comes again, see publish; null: nothing.';

comment on column pgq.publish_rows.body is 'Its content as raw bytes; null when it has a payload.';

create view pgq.enqueue_rows as
select
    null::text as queue,
    null::text as payload,
    null::text as key,
    null::text as headers,
    null::text as delay,
    null::timestamptz as run_at,
    null::integer as priority,
    null::text as label,
    null::text as idempotency_key,
    null::text as unique_key,
    null::integer as max_attempts,
    null::bytea as body
where false;

create or replace trigger enqueue_rows
instead of insert on pgq.enqueue_rows
for each row execute function pgq._enqueue_row();

comment on view pgq.enqueue_rows is
'Always empty; a row that is inserted is a call of enqueue.';

comment on column pgq.enqueue_rows.queue is 'The queue.';

comment on column pgq.enqueue_rows.payload is 'Its content as JSON; null when it has a body.';

comment on column pgq.enqueue_rows.key is 'The key of the job; null: none.';

comment on column pgq.enqueue_rows.headers is 'Its headers, a JSON object; null: none.';

comment on column pgq.enqueue_rows.delay is
'An interval to the first attempt; null: the queue''s.';

comment on column pgq.enqueue_rows.run_at is 'When it is due; null: see delay.';

comment on column pgq.enqueue_rows.priority is '0 (first) to 9 (last); null: 0.';

comment on column pgq.enqueue_rows.label is 'What a claim may ask for; null: no label.';

comment on column pgq.enqueue_rows.idempotency_key is
'What makes it the same when it comes again, see enqueue; null: nothing.';

comment on column pgq.enqueue_rows.unique_key is
'Of which its queue has one unfinished job, see enqueue; null: no such key.';

comment on column pgq.enqueue_rows.max_attempts is
'Attempts before it is dead; null: what its queue says.';

comment on column pgq.enqueue_rows.body is 'Its content as raw bytes; null when it has a payload.';

do $dump_configuration$
declare
    relation regclass;
begin
    if not exists (select from pg_extension where extname = 'pgq') then
        return;
    end if;
    for relation in
        select c.oid
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace
            and c.relkind in ('r', 'S')
            -- Each installation has its own.
            and c.relname not in ('leaf', 'view_key')
            -- Leaves that were made since are no part of it; they are dumped anyway.
            and exists (
                select
                from pg_depend as d
                inner join pg_extension as e on e.oid = d.refobjid
                where d.classid = 'pg_class'::regclass
                    and d.objid = c.oid
                    and d.deptype = 'e'
                    and e.extname = 'pgq'
            )
        order by c.oid
    loop
        perform pg_extension_config_dump(relation, '');
    end loop;
end
$dump_configuration$;
