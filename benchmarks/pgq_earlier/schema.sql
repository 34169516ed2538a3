\echo Installing pgq 0.1.0 \set ON_ERROR_STOP on
-- generated from sql/install.sql by python/tools/build.py: edit there, not here

-- ==== sql/shared/guard.sql

-- Stop before anything is changed when a schema pgq is already there, whoever made it.
do $guard$
begin
    if to_regnamespace('pgq') is null then
        return;
    end if;
    if to_regprocedure('pgq.version()') is not null
        and to_regprocedure('pgq.claim_offsets(text, text, integer, integer)') is not null
    then
        raise exception 'pgq is already installed in this database'
            using errcode = '42P06',
                hint = 'To upgrade, run the scripts migrations/pgq--OLD--NEW.sql.';
    end if;
    raise exception 'schema "pgq" exists and was not made by this package'
        using errcode = '42P06',
            detail = 'Skytools'' PgQ, among others, also installs a schema of this name.',
            hint = 'Nothing was changed. Use another database, or remove the other pgq first.';
end
$guard$;

-- ==== sql/shared/schema.sql

-- How a message moves
--
-- A topic has partitions. publish locks the row of one partition, reads the newest offset stored
-- there (the tip), and inserts the next ones; the lock is held until the publisher commits, so the
-- order of offsets is the order of commits and there are no gaps. Nothing is updated on that way. A
-- consumer group has one position per topic partition. The positions are a journal: claim_offsets,
-- commit_offset and seek append a row, and the newest row counts. A reader is served by
-- fetch_range.
--
-- A queue hands each job to one worker at a time. enqueue stores the payload as a message and a
-- narrow row in job that points at it; claim_job leases jobs that are due by moving visible_at
-- ahead; ack, nack and archive_job need the lease token that the claim gave out. visible_at alone
-- says when a job may be claimed: a delay, a lease, a retry and a lost worker are one mechanism.
--
-- Payloads of topics and queues stand in message, which is split into leaves called segments.
-- Topics and queues that keep their messages for the same time share a storage class, and each
-- class writes to one segment. cleanup opens the next segment from time to time and truncates those
-- that nobody needs, so nothing is deleted row by row.
create schema pgq;

comment on schema pgq is
'Messaging inside PostgreSQL: topics with consumer groups, and queues of leased jobs.
Every function takes named arguments; errors carry an SQLSTATE of PostgreSQL or of class MQ.';

-- ==== sql/shared/types.sql

create type pgq.message_record as (
    partition integer,
    log_offset bigint,
    published_at timestamptz,
    key text,
    headers jsonb,
    payload jsonb,
    body bytea
);

comment on type pgq.message_record is 'A message as consumers get it.';
comment on column pgq.message_record.partition is 'The number of its partition, from 0.';
comment on column pgq.message_record.log_offset is 'Its offset in the partition, from 1.';
comment on column pgq.message_record.published_at is 'When it was published.';
comment on column pgq.message_record.key is 'Its key; null: none.';
comment on column pgq.message_record.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.message_record.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.message_record.body is
'Its content as raw bytes; null when it has a payload.';

-- ==== sql/log/types.sql

create type pgq.topic_info as (
    topic text,
    partitions integer,
    retention interval,
    max_bytes bigint,
    notify boolean,
    created_at timestamptz,
    updated_at timestamptz
);

comment on type pgq.topic_info is 'A topic and its settings.';
comment on column pgq.topic_info.topic is 'Its name.';
comment on column pgq.topic_info.partitions is 'The number of its partitions.';
comment on column pgq.topic_info.retention is
'How long a message is kept at least; null: for ever.';
comment on column pgq.topic_info.max_bytes is 'How many bytes are kept at least; null: no limit.';
comment on column pgq.topic_info.notify is 'Whether a publish notifies the channel pgq_topic.';
comment on column pgq.topic_info.created_at is 'When it was made.';
comment on column pgq.topic_info.updated_at is 'When its settings last changed.';

create type pgq.group_info as (
    topic text,
    consumer_group text,
    out_of_range text,
    created_at timestamptz
);

comment on type pgq.group_info is 'A consumer group and its settings.';
comment on column pgq.group_info.topic is 'The topic that it reads.';
comment on column pgq.group_info.consumer_group is 'Its name.';
comment on column pgq.group_info.out_of_range is
'What happens when retention removed messages it has not read: error or skip.';
comment on column pgq.group_info.created_at is 'When it was made.';

create type pgq.message_position as (
    partition integer,
    log_offset bigint
);

comment on type pgq.message_position is 'A place in a topic.';
comment on column pgq.message_position.partition is 'The number of the partition, from 0.';
comment on column pgq.message_position.log_offset is 'The offset in the partition, from 1.';

create type pgq.offset_range as (
    partition integer,
    first_offset bigint,
    last_offset bigint
);

comment on type pgq.offset_range is 'Consecutive messages of one partition.';
comment on column pgq.offset_range.partition is 'The number of the partition, from 0.';
comment on column pgq.offset_range.first_offset is 'The offset of the first one.';
comment on column pgq.offset_range.last_offset is 'The offset of the last one.';

create type pgq.leased_message as (
    lease_token uuid,
    partition integer,
    log_offset bigint,
    published_at timestamptz,
    key text,
    headers jsonb,
    payload jsonb,
    body bytea
);

comment on type pgq.leased_message is 'A message of a partition that the caller holds for a while.';
comment on column pgq.leased_message.lease_token is
'What commit_offset, extend_poll and release ask for.';
comment on column pgq.leased_message.partition is 'The number of its partition, from 0.';
comment on column pgq.leased_message.log_offset is 'Its offset in the partition, from 1.';
comment on column pgq.leased_message.published_at is 'When it was published.';
comment on column pgq.leased_message.key is 'Its key; null: none.';
comment on column pgq.leased_message.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.leased_message.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.leased_message.body is
'Its content as raw bytes; null when it has a payload.';

-- What the functions of the log hand to each other about a partition whose lock they hold.
create type pgq._partition_state as (
    partition integer,
    partition_id bigint,
    segment integer,
    segment_first_offset bigint,
    segment_entered_at timestamptz,
    topic_segment integer,
    notify boolean
);

comment on type pgq._partition_state is 'A partition whose row the caller has locked.';

create type pgq._group_state as (
    group_id bigint,
    partition integer,
    partition_id bigint,
    segment integer,
    segment_first_offset bigint,
    out_of_range text,
    seq bigint,
    next_offset bigint,
    leased_until timestamptz,
    lease_token uuid,
    lease_last_offset bigint,
    tip bigint
);

comment on type pgq._group_state is
'Where a group stands in a partition whose row the caller has locked.';

create type pgq._claim_state as (
    partition integer,
    partition_id bigint,
    first_offset bigint,
    last_offset bigint,
    segment integer,
    lease_token uuid
);

comment on type pgq._claim_state is
'What a member of a group has just taken, and where it is stored.';

-- ==== sql/queue/types.sql

create type pgq.queue_info as (
    queue text,
    lease interval,
    max_attempts integer,
    delay interval,
    retention interval,
    backoff interval,
    backoff_max interval,
    backoff_jitter double precision,
    archive boolean,
    notify boolean,
    paused boolean,
    created_at timestamptz,
    updated_at timestamptz
);

comment on type pgq.queue_info is 'A queue and its settings.';
comment on column pgq.queue_info.queue is 'Its name.';
comment on column pgq.queue_info.lease is
'How long a worker has a job unless the claim says otherwise.';
comment on column pgq.queue_info.max_attempts is 'Deliveries before a job is dead; null: no limit.';
comment on column pgq.queue_info.delay is 'From enqueue to the first delivery.';
comment on column pgq.queue_info.retention is
'From enqueue until an unfinished job expires; null: never.';
comment on column pgq.queue_info.backoff is
'Delay before the first retry; each further one doubles it.';
comment on column pgq.queue_info.backoff_max is 'The longest delay before a retry.';
comment on column pgq.queue_info.backoff_jitter is
'Up to this share of the delay is added at random.';
comment on column pgq.queue_info.archive is 'Whether ack notes the job among the archived ones.';
comment on column pgq.queue_info.notify is 'Whether an enqueue notifies the channel pgq_queue.';
comment on column pgq.queue_info.paused is 'Whether claims get nothing for now.';
comment on column pgq.queue_info.created_at is 'When it was made.';
comment on column pgq.queue_info.updated_at is 'When its settings last changed.';

create type pgq.claimed_job as (
    job_id bigint,
    lease_token uuid,
    attempt integer,
    leased_until timestamptz,
    enqueued_at timestamptz,
    priority integer,
    key text,
    label text,
    headers jsonb,
    payload jsonb,
    body bytea
);

comment on type pgq.claimed_job is 'A job that the caller has until its lease ends.';
comment on column pgq.claimed_job.job_id is 'Its id.';
comment on column pgq.claimed_job.lease_token is
'What ack, nack, archive_job and extend_lease ask for; one token for all jobs of a claim.';
comment on column pgq.claimed_job.attempt is 'Which delivery this is, from 1.';
comment on column pgq.claimed_job.leased_until is 'When another worker may get it.';
comment on column pgq.claimed_job.enqueued_at is 'When it was enqueued.';
comment on column pgq.claimed_job.priority is '0 (first) to 9 (last).';
comment on column pgq.claimed_job.key is 'Its key; null: none.';
comment on column pgq.claimed_job.label is 'Its label; null: none.';
comment on column pgq.claimed_job.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.claimed_job.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.claimed_job.body is 'Its content as raw bytes; null when it has a payload.';

create type pgq._leased_job as (
    job_id bigint,
    attempt integer,
    leased_until timestamptz,
    priority smallint,
    label text,
    due_at timestamptz,
    segment integer
);

comment on type pgq._leased_job is 'A job just claimed, without its payload.';

-- ==== sql/bulk/types.sql

create type pgq.bulk_write_state as (
    write_id uuid,
    messages bigint,
    committed_at timestamptz,
    repeated boolean
);

comment on type pgq.bulk_write_state is 'Where a bulk write stands.';
comment on column pgq.bulk_write_state.write_id is
'What write_chunk, commit_write and abort_write ask for.';
comment on column pgq.bulk_write_state.messages is
'How many messages or jobs it wrote; null: not committed.';
comment on column pgq.bulk_write_state.committed_at is 'When it was committed; null: it was not.';
comment on column pgq.bulk_write_state.repeated is
'Whether it had been committed before this call, which changed nothing.';

-- ==== sql/operations/types.sql

create type pgq.cleanup_report as (
    action text,
    target text,
    amount bigint
);

comment on type pgq.cleanup_report is 'One thing that cleanup did.';
comment on column pgq.cleanup_report.action is
'What: jobs expired, segment truncated, busy and so on.';
comment on column pgq.cleanup_report.target is 'To which queue, group or segment.';
comment on column pgq.cleanup_report.amount is 'To how many.';

-- ==== sql/shared/tables.sql

create table pgq.storage_class (
    storage_class_id bigint generated always as identity primary key,
    retention interval,
    max_bytes bigint,
    owner_id bigint
);

-- One class per retention; a topic with a size limit has a class of its own.
create unique index storage_class_key on pgq.storage_class
(coalesce(retention, interval '-1 day'), coalesce(owner_id, 0));

comment on table pgq.storage_class is
'What is kept for the same time is stored together; each class writes to one segment.';
comment on column pgq.storage_class.retention is 'How long messages are kept; null: for ever.';
comment on column pgq.storage_class.max_bytes is 'Size limit of the class, in bytes; null: none.';
comment on column pgq.storage_class.owner_id is
'The topic that has this class for itself; null: shared.';

create table pgq.segment (
    segment integer primary key,
    storage_class_id bigint not null references pgq.storage_class (storage_class_id),
    state text not null check (state in ('open', 'sealed', 'closed')),
    opened_at timestamptz not null,
    sealed_at timestamptz,
    sealed_xid xid8,
    horizon xid8,
    closed_at timestamptz
);

comment on table pgq.segment is
'The leaves of message that are in use; a leaf without a row here is empty and free.';
comment on column pgq.segment.segment is 'The number of the leaf: message_N and job_archive_N.';
comment on column pgq.segment.storage_class_id is 'The class whose messages it holds.';
comment on column pgq.segment.state is
'open: written to; sealed: late writers may still finish; closed: nothing is added any more.';
comment on column pgq.segment.opened_at is 'When its class began to write to it.';
comment on column pgq.segment.sealed_at is 'When its class moved on to another segment.';
comment on column pgq.segment.sealed_xid is 'The transaction that sealed it.';
comment on column pgq.segment.horizon is
'Transactions below this one may still write to it; once all have ended it can be closed.';
comment on column pgq.segment.closed_at is
'From when on nothing was added; its messages are older.';

create unique index segment_open on pgq.segment (storage_class_id) where state = 'open';

-- Eight columns at most: a row with nulls then has a header of 24 bytes, with nine it would have
-- 32.
create table pgq.message (
    partition_id bigint not null,
    log_offset bigint not null,
    published_at timestamptz not null,
    segment integer not null,
    key text,
    headers jsonb,
    payload jsonb,
    body bytea
)
partition by list (segment);

comment on table pgq.message is
'Every payload, of topics and of queues, written once. Its leaves are emptied by TRUNCATE.';
comment on column pgq.message.partition_id is
'The topic partition, or the queue, that it belongs to.';
comment on column pgq.message.log_offset is 'Its offset in the partition; for a queue, the job_id.';
comment on column pgq.message.published_at is
'When it was published, by the clock of the server; rises with the offset.';
comment on column pgq.message.segment is 'The leaf that holds it.';
comment on column pgq.message.key is 'Messages with one key go to one partition; null: no key.';
comment on column pgq.message.headers is 'A JSON object with what travels beside the payload.';
comment on column pgq.message.payload is 'The content as JSON; null when body is set.';
comment on column pgq.message.body is 'The content as raw bytes; null when payload is set.';

-- Partitions of topics and queues draw their ids from here, so that message needs no second key.
create sequence pgq.partition_id as bigint;

comment on sequence pgq.partition_id is
'Ids of topic partitions and of queues in the message store.';

-- ==== sql/log/tables.sql

create table pgq.topic (
    topic_id bigint generated always as identity primary key,
    topic text not null unique,
    partitions integer not null,
    storage_class_id bigint not null references pgq.storage_class (storage_class_id),
    segment integer not null,
    notify boolean not null,
    created_at timestamptz not null,
    updated_at timestamptz not null
);

comment on table pgq.topic is 'A log of messages in one or more partitions.';
comment on column pgq.topic.topic is 'Its name.';
comment on column pgq.topic.partitions is
'The number of its partitions, which are numbered from 0.';
comment on column pgq.topic.storage_class_id is 'How long its messages are kept.';
comment on column pgq.topic.segment is 'The open segment of its class: where new messages go.';
comment on column pgq.topic.notify is 'Whether a publish notifies the channel pgq_topic.';
comment on column pgq.topic.created_at is 'When it was made.';
comment on column pgq.topic.updated_at is 'When its settings last changed.';

create table pgq.partition (
    topic_id bigint not null references pgq.topic (topic_id) on delete cascade,
    partition integer not null,
    partition_id bigint not null unique,
    segment integer not null,
    segment_first_offset bigint not null,
    segment_entered_at timestamptz not null,
    primary key (topic_id, partition)
);

comment on table pgq.partition is
'One row per topic partition; a publisher locks it until commit, and does not change it.';
comment on column pgq.partition.partition_id is 'Its id in the message store.';
comment on column pgq.partition.segment is 'The segment that its next message goes to.';
comment on column pgq.partition.segment_first_offset is
'The first offset that this segment has or will have.';
comment on column pgq.partition.segment_entered_at is
'No message in this segment is published earlier.';

create table pgq.segment_range (
    partition_id bigint not null references pgq.partition (partition_id) on delete cascade,
    first_offset bigint not null,
    segment integer not null,
    primary key (partition_id, first_offset)
);

comment on table pgq.segment_range is
'Which segment holds which offsets of a partition: from first_offset up to the next row''s.';
comment on column pgq.segment_range.first_offset is 'The first offset stored in the segment.';
comment on column pgq.segment_range.segment is 'The segment that holds them.';

create table pgq.consumer_group (
    group_id bigint generated always as identity primary key,
    topic_id bigint not null references pgq.topic (topic_id) on delete cascade,
    consumer_group text not null,
    out_of_range text not null check (out_of_range in ('error', 'skip')),
    created_at timestamptz not null,
    unique (topic_id, consumer_group)
);

comment on table pgq.consumer_group is
'Readers of one topic that share one position per partition.';
comment on column pgq.consumer_group.consumer_group is 'Its name, unique within the topic.';
comment on column pgq.consumer_group.out_of_range is
'What happens when retention removed messages the group has not read: error, or skip them.';
comment on column pgq.consumer_group.created_at is 'When it was made.';

create table pgq.group_partition (
    group_id bigint not null references pgq.consumer_group (group_id) on delete cascade,
    partition integer not null,
    primary key (group_id, partition)
);

comment on table pgq.group_partition is
'One row per group and partition; a member locks it while it moves the position.';
comment on column pgq.group_partition.partition is 'The number of the partition.';

create table pgq.group_position (
    group_id bigint not null,
    partition integer not null,
    seq bigint not null,
    first_offset bigint not null,
    next_offset bigint not null,
    recorded_at timestamptz not null,
    leased_until timestamptz,
    lease_token uuid,
    lease_last_offset bigint,
    primary key (group_id, partition, seq)
);

comment on table pgq.group_position is
'The positions of groups, as a journal: the row with the highest seq counts, cleanup trims old
ones.';
comment on column pgq.group_position.seq is
'Rises by one with every change of the position or its lease.';
comment on column pgq.group_position.first_offset is 'The position before this change.';
comment on column pgq.group_position.next_offset is 'The offset that is read next.';
comment on column pgq.group_position.recorded_at is 'When the change was made.';
comment on column pgq.group_position.leased_until is
'Until when a member has the partition; null: nobody.';
comment on column pgq.group_position.lease_token is 'The token that poll gave to that member.';
comment on column pgq.group_position.lease_last_offset is
'The last offset that poll gave to that member.';

-- ==== sql/queue/tables.sql

create table pgq.queue (
    queue_id bigint generated always as identity primary key,
    queue text not null unique,
    partition_id bigint not null unique,
    storage_class_id bigint not null references pgq.storage_class (storage_class_id),
    segment integer not null,
    lease interval not null,
    max_attempts integer,
    delay interval not null,
    retention interval,
    backoff interval not null,
    backoff_max interval not null,
    backoff_jitter double precision not null,
    archive boolean not null,
    notify boolean not null,
    paused boolean not null default false,
    created_at timestamptz not null,
    updated_at timestamptz not null
);

comment on table pgq.queue is 'A queue of jobs and its settings.';
comment on column pgq.queue.queue is 'Its name.';
comment on column pgq.queue.partition_id is 'Its id in the message store.';
comment on column pgq.queue.storage_class_id is 'Where its payloads are stored.';
comment on column pgq.queue.segment is 'The open segment of its class: where new payloads go.';
comment on column pgq.queue.lease is 'How long a worker has a job unless the claim says otherwise.';
comment on column pgq.queue.max_attempts is 'Deliveries before a job is dead; null: no limit.';
comment on column pgq.queue.delay is 'From enqueue to the first delivery.';
comment on column pgq.queue.retention is
'From enqueue until an unfinished job expires; null: never.';
comment on column pgq.queue.backoff is 'Delay before the first retry; each further one doubles it.';
comment on column pgq.queue.backoff_max is 'The longest delay before a retry.';
comment on column pgq.queue.backoff_jitter is 'Up to this share of the delay is added at random.';
comment on column pgq.queue.archive is 'Whether ack notes the job in job_archive.';
comment on column pgq.queue.notify is 'Whether an enqueue notifies the channel pgq_queue.';
comment on column pgq.queue.paused is 'Whether claims get nothing for now.';
comment on column pgq.queue.created_at is 'When it was made.';
comment on column pgq.queue.updated_at is 'When its settings last changed.';

create sequence pgq.job_id as bigint cache 1;

comment on sequence pgq.job_id is 'Ids of jobs, unique over all queues.';

-- The columns that a claim changes stand together behind those that it does not change, so that the
-- log of the update can leave out what both versions begin with; half of a page is kept free for
-- the new version.
create table pgq.job (
    job_id bigint primary key,
    queue_id bigint not null,
    expires_at timestamptz,
    segment integer not null,
    priority smallint not null,
    attempt integer not null,
    visible_at timestamptz not null,
    lease_token uuid,
    label text,
    last_error text
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create index job_claim on pgq.job (queue_id, priority, visible_at, job_id);
-- The negative id is in no other index: so a claim by label cannot but use this one, where an old
-- or a missing statistic might lead it along all jobs of the queue.
create index job_label on pgq.job (label, (-queue_id), priority, visible_at, job_id)
where label is not null;

comment on table pgq.job is 'Jobs not yet finished, narrow: the payload stands in message.';
comment on column pgq.job.job_id is 'Its id, which is also the offset of its message.';
comment on column pgq.job.expires_at is 'From then on it is never delivered; null: no such time.';
comment on column pgq.job.segment is 'The segment that holds its message.';
comment on column pgq.job.priority is '0 (first) to 9 (last).';
comment on column pgq.job.attempt is 'How often it was delivered.';
comment on column pgq.job.visible_at is 'From when on it may be claimed.';
comment on column pgq.job.lease_token is
'The token of the claim that has it; null: never claimed, or nacked.';
comment on column pgq.job.label is 'What a claim may ask for; null: no label.';
comment on column pgq.job.last_error is 'The error that the last nack gave.';

create table pgq.dead_job (
    job_id bigint primary key,
    queue_id bigint not null,
    segment integer not null,
    priority smallint not null,
    attempt integer not null,
    died_at timestamptz not null,
    label text,
    last_error text
);

create index dead_job_queue on pgq.dead_job (queue_id, job_id);

comment on table pgq.dead_job is
'Jobs that used up their attempts, until redriven, purged or too old.';
comment on column pgq.dead_job.attempt is 'How often it was delivered.';
comment on column pgq.dead_job.died_at is 'When it was moved here.';
comment on column pgq.dead_job.last_error is
'Why: the last nack''s error, or that its lease ran out.';

create table pgq.job_archive (
    job_id bigint not null,
    queue_id bigint not null,
    ended_at timestamptz not null,
    segment integer not null,
    attempt integer not null,
    outcome text not null,
    label text,
    result jsonb,
    last_error text
)
partition by list (segment);

comment on table pgq.job_archive is
'Finished jobs; a leaf is truncated together with the segment that holds the payloads.';
comment on column pgq.job_archive.ended_at is 'When it was finished.';
comment on column pgq.job_archive.outcome is 'acked, or what archive_job was told.';
comment on column pgq.job_archive.result is 'What archive_job was given; null: nothing.';
comment on column pgq.job_archive.last_error is
'The error of the last nack before it was finished.';

create table pgq.queue_floor_lock (
    queue_id bigint primary key references pgq.queue (queue_id) on delete cascade
);

comment on table pgq.queue_floor_lock is
'One row per queue, locked by the claim that raises its floor.';

create table pgq.queue_floor (
    queue_id bigint not null,
    seq bigint not null,
    floor_times timestamptz[] not null,
    floor_ids bigint[] not null,
    recorded_at timestamptz not null,
    safe_at timestamptz not null,
    candidate_at timestamptz not null,
    candidate_xid xid8 not null,
    primary key (queue_id, seq)
);

comment on table pgq.queue_floor is
'Below which visible_at and job_id no claimable job exists, as a journal.
The row with the highest seq counts.';
comment on column pgq.queue_floor.seq is 'Rises by one with every change.';
comment on column pgq.queue_floor.floor_times is 'The floor of each priority, 0 to 9: visible_at.';
comment on column pgq.queue_floor.floor_ids is 'The job_id among jobs of that visible_at.';
comment on column pgq.queue_floor.recorded_at is 'When this row was written.';
comment on column pgq.queue_floor.safe_at is
'Below which no transaction writes a visible_at any more: the floors may rise up to here.';
comment on column pgq.queue_floor.candidate_at is 'What safe_at becomes next.';
comment on column pgq.queue_floor.candidate_xid is
'It does so once every transaction below this one has ended.';

-- ==== sql/bulk/tables.sql

-- No foreign keys: drop_topic would wait for rows here while it holds partitions, and the writers
-- wait for these the other way round. cleanup removes what was dropped.
create table pgq.bulk_write (
    bulk_write_id bigint generated always as identity primary key,
    topic_id bigint,
    queue_id bigint,
    producer text,
    seq bigint,
    atomic boolean not null,
    write_id uuid not null unique,
    begun_at timestamptz not null,
    expires_at timestamptz not null,
    committed_at timestamptz,
    messages bigint,
    check (num_nonnulls(topic_id, queue_id) = 1),
    check (num_nonnulls(producer, seq) <> 1)
);

create unique index bulk_write_seq on pgq.bulk_write
(producer, coalesce(topic_id, 0), coalesce(queue_id, 0), seq);

comment on table pgq.bulk_write is
'What many writers write as one: open until it is committed, then kept to know it again.';
comment on column pgq.bulk_write.topic_id is 'The topic that is written to; null: a queue.';
comment on column pgq.bulk_write.queue_id is 'The queue that is written to; null: a topic.';
comment on column pgq.bulk_write.producer is
'Who writes; with seq it tells a repeated write; null: not to be told.';
comment on column pgq.bulk_write.seq is 'The number that the producer gave the write.';
comment on column pgq.bulk_write.atomic is
'Whether chunks are staged until the commit, or published as they come.';
comment on column pgq.bulk_write.write_id is
'The token of those who may write: a new begin gives out a new one, and the old ones are refused.';
comment on column pgq.bulk_write.begun_at is 'When it was begun, the last time.';
comment on column pgq.bulk_write.expires_at is
'From when on cleanup forgets it, should it still be open.';
comment on column pgq.bulk_write.committed_at is 'When it was committed; null: it is open.';
comment on column pgq.bulk_write.messages is 'How many messages or jobs it wrote.';

-- What is staged is written a second time when it is published, so the first time goes without
-- write-ahead log. A crash or a failover empties these tables, the mark of the write is gone then,
-- and it has to be begun anew: what some tasks staged is never taken for what all did.
create unlogged table pgq.staged_write (
    write_id uuid primary key
);

comment on table pgq.staged_write is
'Marks the atomic writes that are open; without its mark nothing staged for a write counts.';

create unlogged table pgq.staged_task (
    write_id uuid not null,
    task integer not null,
    task_attempt text not null,
    messages bigint,
    primary key (write_id, task)
);

comment on table pgq.staged_task is 'Which attempt of each task of an atomic write counts.';
comment on column pgq.staged_task.task_attempt is
'The attempt that staged the first chunk and committed; chunks of others are left out.';
comment on column pgq.staged_task.messages is
'How many messages the task staged; null: its last chunk has not come.';

create unlogged table pgq.staged_chunk (
    write_id uuid not null,
    task integer not null,
    chunk integer not null,
    partition integer,
    priority integer,
    delay interval,
    messages integer not null,
    packed bytea,
    starts integer[],
    lengths integer[],
    payloads jsonb[],
    bodies bytea[],
    keys text[],
    headers jsonb[],
    labels text[],
    primary key (write_id, task, chunk)
);

-- Chunks are written and read whole, and once: compressing them costs more than it saves.
alter table pgq.staged_chunk
alter column packed set storage external,
alter column starts set storage external,
alter column lengths set storage external,
alter column payloads set storage external,
alter column bodies set storage external,
alter column keys set storage external,
alter column headers set storage external,
alter column labels set storage external;

comment on table pgq.staged_chunk is
'Messages of atomic writes until these are committed; not replicated, and empty after a crash.';
comment on column pgq.staged_chunk.chunk is 'The number of the chunk within its task.';
comment on column pgq.staged_chunk.partition is 'The partition to publish to; null: see publish.';
comment on column pgq.staged_chunk.priority is 'The priority of jobs; null: 0.';
comment on column pgq.staged_chunk.delay is 'The delay of jobs; null: the queue''s.';
comment on column pgq.staged_chunk.messages is 'How many messages it has.';
comment on column pgq.staged_chunk.packed is
'The contents one behind the other; null: see payloads and bodies.';
comment on column pgq.staged_chunk.starts is 'Where each of them begins in packed, from 1.';
comment on column pgq.staged_chunk.lengths is 'The length of each of them, in bytes.';
comment on column pgq.staged_chunk.payloads is 'The contents as JSON; null: see packed and bodies.';
comment on column pgq.staged_chunk.bodies is
'The contents as raw bytes; null: see packed and payloads.';
comment on column pgq.staged_chunk.keys is 'The key of each message; null: no keys.';
comment on column pgq.staged_chunk.headers is 'The headers of each message; null: no headers.';
comment on column pgq.staged_chunk.labels is 'The label of each job; null: no labels.';

create table pgq.published_chunk (
    bulk_write_id bigint not null references pgq.bulk_write (bulk_write_id) on delete cascade,
    task integer not null,
    chunk integer not null,
    messages integer not null,
    digest bigint not null,
    write_id uuid not null,
    primary key (bulk_write_id, task, chunk)
);

comment on table pgq.published_chunk is
'Chunks of writes that are not atomic, until these are committed: what comes again is left out.';
comment on column pgq.published_chunk.chunk is 'The number of the chunk within its task.';
comment on column pgq.published_chunk.messages is 'How many messages it had.';
comment on column pgq.published_chunk.write_id is 'The attempt that wrote it last.';
comment on column pgq.published_chunk.digest is
'A hash of its contents, to notice that a repeated task made other chunks.';

-- ==== sql/shared/_clock.sql

create function pgq._clock()
returns timestamptz
language sql
volatile
parallel safe
as $$
select clock_timestamp()
$$;

comment on function pgq._clock() is
'The time by which leases, delays and retention are counted.
Every function reads the clock here, so that a test can move it.';

-- ==== sql/shared/version.sql

create function pgq.version()
returns text
language sql
immutable
parallel safe
as $$
select '0.1.0'
$$;

comment on function pgq.version() is
'The version of pgq that this database has.';

-- ==== sql/shared/_check_name.sql

create function pgq._check_name(argument text, name text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_name.name is null then
        raise exception 'argument "%" must not be null', _check_name.argument
            using errcode = '22004';
    end if;
    if _check_name.name !~ '^[A-Za-z0-9._-]{1,63}$' or _check_name.name ~ '^pg_' then
        raise exception 'argument "%" is not a valid name', _check_name.argument
            using errcode = '22023',
                detail = format('Given: "%s".', left(_check_name.name, 100)),
                hint = 'A name has 1 to 63 characters out of A-Z, a-z, 0-9, ".", "_" and "-", '
                    'and does not begin with "pg_".';
    end if;
end
$$;

comment on function pgq._check_name(text, text) is
'Refuses a name that is null (22004), or a bad one (22023).
It has the form [A-Za-z0-9._-]{1,63} and does not begin with pg_, a prefix that PostgreSQL keeps.';

-- ==== sql/shared/_check_count.sql

create function pgq._check_count(argument text, number bigint, lowest bigint, highest bigint)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_count.number is null then
        raise exception 'argument "%" must not be null', _check_count.argument
            using errcode = '22004';
    end if;
    if _check_count.number not between _check_count.lowest and _check_count.highest then
        raise exception 'argument "%" is out of range', _check_count.argument
            using errcode = '22023',
                detail = format(
                    'Given: %s; allowed: %s to %s.',
                    _check_count.number, _check_count.lowest, _check_count.highest
                );
    end if;
end
$$;

comment on function pgq._check_count(text, bigint, bigint, bigint) is
'Refuses a number that is null (22004) or outside the bounds (22023).';

-- ==== sql/shared/_check_interval.sql

create function pgq._check_interval(argument text, length interval, zero_allowed boolean)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_interval.length is null then
        raise exception 'argument "%" must not be null', _check_interval.argument
            using errcode = '22004';
    end if;
    if _check_interval.length < interval '0'
        or _check_interval.length > interval '36500 days'
        or (_check_interval.length = interval '0' and not _check_interval.zero_allowed)
    then
        raise exception 'argument "%" is out of range', _check_interval.argument
            using errcode = '22023',
                detail = format('Given: %s.', _check_interval.length),
                hint = case
                    when _check_interval.zero_allowed then 'It must be from 0 to 36500 days.'
                    else 'It must be more than 0 and at most 36500 days.'
                end;
    end if;
end
$$;

comment on function pgq._check_interval(text, interval, boolean) is
'Refuses a length of time that is null (22004), negative, or longer than 36500 days (22023).';

-- ==== sql/shared/_check_content.sql

create function pgq._check_content(payload jsonb, body bytea, headers jsonb)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_content.payload is null and _check_content.body is null then
        raise exception 'a message needs a payload or a body'
            using errcode = '22004',
                hint = 'Pass payload (jsonb) or body (bytea). JSON null is ''null''::jsonb.';
    end if;
    if _check_content.payload is not null and _check_content.body is not null then
        raise exception 'a message has either a payload or a body, not both'
            using errcode = '22023';
    end if;
    if jsonb_typeof(_check_content.headers) <> 'object' then
        raise exception 'headers must be a JSON object'
            using errcode = '22023',
                detail = format('Given: a JSON %s.', jsonb_typeof(_check_content.headers));
    end if;
end
$$;

comment on function pgq._check_content(jsonb, bytea, jsonb) is
'Refuses a message without content (22004), with two contents, or with odd headers (22023).';

-- ==== sql/shared/_check_batch.sql

create function pgq._check_batch(
    payloads jsonb[],
    bodies bytea[],
    keys text[],
    headers jsonb[],
    labels text[]
)
returns integer
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    size integer;
    gap integer;
begin
    if (_check_batch.payloads is null) = (_check_batch.bodies is null) then
        raise exception 'a batch needs either payloads or bodies'
            using errcode = case when _check_batch.payloads is null then '22004' else '22023' end,
                hint = 'Pass one of payloads (jsonb[]) and bodies (bytea[]).';
    end if;
    if array_ndims(_check_batch.payloads) > 1 or array_ndims(_check_batch.bodies) > 1
        or array_ndims(_check_batch.keys) > 1 or array_ndims(_check_batch.headers) > 1
        or array_ndims(_check_batch.labels) > 1
    then
        raise exception 'the arrays of a batch must have one dimension'
            using errcode = '22023';
    end if;
    size := coalesce(cardinality(_check_batch.payloads), cardinality(_check_batch.bodies));
    if cardinality(_check_batch.keys) <> size
        or cardinality(_check_batch.headers) <> size
        or cardinality(_check_batch.labels) <> size
    then
        raise exception 'the arrays of a batch must have the same length'
            using errcode = '22023',
                detail = concat_ws(
                    ', ',
                    'messages: ' || size,
                    'keys: ' || cardinality(_check_batch.keys),
                    'headers: ' || cardinality(_check_batch.headers),
                    'labels: ' || cardinality(_check_batch.labels)
                );
    end if;
    gap := coalesce(
        array_position(_check_batch.payloads, null) - array_lower(_check_batch.payloads, 1),
        array_position(_check_batch.bodies, null) - array_lower(_check_batch.bodies, 1)
    );
    if gap is not null then
        raise exception 'a batch must not contain null'
            using errcode = '22004',
                detail = format('Message %s of %s is null; nothing was stored.', gap + 1, size);
    end if;
    if _check_batch.headers is not null
        and exists (
            select from unnest(_check_batch.headers) as h (header)
            where jsonb_typeof(h.header) <> 'object'
        )
    then
        raise exception 'headers must be JSON objects'
            using errcode = '22023';
    end if;
    return size;
end
$$;

comment on function pgq._check_batch(jsonb[], bytea[], text[], jsonb[], text[]) is
'The number of messages of a batch; refuses one that has none of the contents, or both, or a null,
or arrays of other lengths (22004, 22023).';

-- ==== sql/shared/_check_lease_token.sql

create function pgq._check_lease_token(lease_token uuid)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_lease_token.lease_token is null then
        raise exception 'argument "lease_token" must not be null'
            using errcode = '22004';
    end if;
end
$$;

comment on function pgq._check_lease_token(uuid) is
'Refuses a null token (22004).';

-- ==== sql/shared/_check_no_limit.sql

create function pgq._check_no_limit(no_limit text[], allowed text[])
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if not coalesce(_check_no_limit.no_limit, '{}') <@ _check_no_limit.allowed then
        raise exception 'argument "no_limit" names a setting that cannot be lifted'
            using errcode = '22023',
                detail = format(
                    'Given: %s; allowed: %s.',
                    array_to_string(_check_no_limit.no_limit, ', ', 'null'),
                    array_to_string(_check_no_limit.allowed, ', ')
                );
    end if;
end
$$;

comment on function pgq._check_no_limit(text[], text[]) is
'Refuses the name of a setting that has no limit to lift (22023).';

-- ==== sql/shared/_create_leaf.sql

create function pgq._create_leaf(leaf integer)
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
    execute format(
        'alter table pgq.job_archive attach partition pgq.job_archive_%1$s for values in (%1$s)',
        _create_leaf.leaf
    );
    execute format(
        'comment on table pgq.message_%1$s is ''Segment %1$s of the messages.''', _create_leaf.leaf
    );
    execute format(
        'comment on table pgq.job_archive_%1$s is ''Segment %1$s of the finished jobs.''',
        _create_leaf.leaf
    );
end
$$;

comment on function pgq._create_leaf(integer) is
'Adds a leaf to message and to job_archive.';

-- ==== sql/shared/_open_segment.sql

create function pgq._open_segment(storage_class_id bigint)
returns integer
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    leaf integer;
begin
    -- Two classes that open a segment at once must not take one leaf.
    lock table pgq.segment in share row exclusive mode;

    select min(n.leaf)
    into leaf
    from generate_series(0, (select count(*) from pgq.segment)) as n (leaf)
    where not exists (select from pgq.segment as s where s.segment = n.leaf);

    if to_regclass('pgq.message_' || leaf) is null then
        perform pgq._create_leaf(leaf);
    end if;

    insert into pgq.segment (segment, storage_class_id, state, opened_at)
    values (leaf, _open_segment.storage_class_id, 'open', pgq._clock());

    return leaf;
end
$$;

comment on function pgq._open_segment(bigint) is
'Takes a free leaf for a storage class, or makes one, and returns its number.';

-- ==== sql/shared/_open_segment_of.sql

create function pgq._open_segment_of(storage_class_id bigint)
returns integer
language sql
stable
parallel safe
as $$
select s.segment
from pgq.segment as s
where s.storage_class_id = _open_segment_of.storage_class_id
    and s.state = 'open'
$$;

comment on function pgq._open_segment_of(bigint) is
'The segment that a storage class writes to now.';

-- ==== sql/shared/_storage_class.sql

create function pgq._storage_class(retention interval, max_bytes bigint, owner_id bigint)
returns bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    found_id bigint;
begin
    -- Again when cleanup removes a class out of use between the two statements.
    while found_id is null loop
        insert into pgq.storage_class (retention, max_bytes, owner_id)
        values (_storage_class.retention, _storage_class.max_bytes, _storage_class.owner_id)
        on conflict do nothing;

        -- The lock is held to the end: two callers must not open a segment for one class.
        select c.storage_class_id
        into found_id
        from pgq.storage_class as c
        where
            coalesce(c.retention, interval '-1 day')
            = coalesce(_storage_class.retention, interval '-1 day')
            and coalesce(c.owner_id, 0) = coalesce(_storage_class.owner_id, 0)
        for update;
    end loop;

    if not exists (
        select from pgq.segment as s
        where s.storage_class_id = found_id
            and s.state = 'open'
    ) then
        perform pgq._open_segment(found_id);
    end if;

    update pgq.storage_class as c
    set max_bytes = _storage_class.max_bytes
    where c.storage_class_id = found_id
        and c.max_bytes is distinct from _storage_class.max_bytes;

    return found_id;
end
$$;

comment on function pgq._storage_class(interval, bigint, bigint) is
'The storage class for a retention, made on first use together with its first segment.';

-- ==== sql/shared/_messages.sql

create function pgq._messages(
    segment integer,
    partition_id bigint,
    partition integer,
    first_offset bigint,
    last_offset bigint
)
returns setof pgq.message_record
language sql
stable
parallel safe
as $$
select
    _messages.partition,
    m.log_offset,
    m.published_at,
    m.key,
    m.headers,
    m.payload,
    m.body
from pgq.message as m
where m.segment = _messages.segment
    and m.partition_id = _messages.partition_id
    and m.log_offset between _messages.first_offset and _messages.last_offset
order by m.log_offset
$$;

comment on function pgq._messages(integer, bigint, integer, bigint, bigint) is
'The messages of one partition in one segment, in order; written so that the planner inlines it.';

-- ==== sql/shared/_forget_messages.sql

create function pgq._forget_messages(partition_ids bigint[], storage_class_id bigint)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- Where there is a retention, the messages go with their segment. Where there is none, they
    -- would stay for ever.
    delete from pgq.message as m
    using pgq.storage_class as c
    where c.storage_class_id = _forget_messages.storage_class_id
        and c.retention is null
        and m.partition_id = any(_forget_messages.partition_ids);
end
$$;

comment on function pgq._forget_messages(bigint[], bigint) is
'Removes the messages of partitions that are being dropped, if nothing else ever would.';

-- ==== sql/log/_fail_unknown_topic.sql

create function pgq._fail_unknown_topic(topic text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _fail_unknown_topic.topic is null then
        raise exception 'argument "topic" must not be null'
            using errcode = '22004';
    end if;
    raise exception 'unknown topic "%"', _fail_unknown_topic.topic
        using errcode = 'MQ001',
            hint = 'Create it with pgq.create_topic, or see pgq.list_topics for those that exist.';
end
$$;

comment on function pgq._fail_unknown_topic(text) is
'Raises MQ001, or 22004 when no name was given.';

-- ==== sql/log/_fail_unknown_partition.sql

create function pgq._fail_unknown_partition(topic text, partition integer, partitions integer)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _fail_unknown_partition.partition is null then
        raise exception 'argument "partition" must not be null'
            using errcode = '22004';
    end if;
    raise exception 'unknown partition % of topic "%"',
        _fail_unknown_partition.partition, _fail_unknown_partition.topic
        using errcode = 'MQ007',
            detail = format(
                'The topic has %s partitions, numbered from 0.', _fail_unknown_partition.partitions
            );
end
$$;

comment on function pgq._fail_unknown_partition(text, integer, integer) is
'Raises MQ007, or 22004 when no partition was given.';

-- ==== sql/log/_check_group.sql

create function pgq._check_group(topic text, consumer_group text, partition integer)
returns void
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

    if _check_group.partition not between 0 and target.partitions - 1 then
        perform pgq._fail_unknown_partition(
            _check_group.topic, _check_group.partition, target.partitions
        );
    end if;
end
$$;

comment on function pgq._check_group(text, text, integer) is
'Raises what is wrong with the names of a topic (MQ001), a group (MQ003) or a partition (MQ007), if
anything.';

-- ==== sql/log/_fail_out_of_range.sql

create function pgq._fail_out_of_range(
    topic text,
    partition integer,
    log_offset bigint,
    first_available bigint,
    last_available bigint
)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    raise exception 'offset % of topic "%", partition % is out of range',
        _fail_out_of_range.log_offset, _fail_out_of_range.topic, _fail_out_of_range.partition
        using errcode = 'MQ004',
            detail = format(
                'First available offset: %s; last available offset: %s.',
                _fail_out_of_range.first_available, _fail_out_of_range.last_available
            ),
            hint = case
                when _fail_out_of_range.log_offset < _fail_out_of_range.first_available then
                    'Retention has removed it. Use pgq.seek, or let the group skip what is gone.'
                else
                    'It is not published yet, or not visible here: not committed or replicated.'
            end;
end
$$;

comment on function pgq._fail_out_of_range(text, integer, bigint, bigint, bigint) is
'Raises MQ004 with the offsets that there are.';

-- ==== sql/log/_fail_lease_lost.sql

create function pgq._fail_lease_lost(topic text, consumer_group text, partition integer)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    raise exception 'partition % of topic "%" is not leased to this member of consumer group "%"',
        _fail_lease_lost.partition, _fail_lease_lost.topic, _fail_lease_lost.consumer_group
        using errcode = 'MQ006',
            detail = 'The lease token is missing, or of a lease that has ended.',
            hint = 'Nothing was changed. Poll again; another member may have the same messages.';
end
$$;

comment on function pgq._fail_lease_lost(text, text, integer) is
'Raises MQ006.';

-- ==== sql/log/_fail_truncated.sql

create function pgq._fail_truncated(topic text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    raise exception 'retention removed messages of topic "%" while they were being read',
        _fail_truncated.topic
        using errcode = '40001',
            hint = 'The position has not moved. Try again.';
end
$$;

comment on function pgq._fail_truncated(text) is
'Raises 40001.';

-- ==== sql/log/_check_topic_settings.sql

create function pgq._check_topic_settings(partitions integer, retention interval, max_bytes bigint)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    perform pgq._check_count('partitions', _check_topic_settings.partitions, 1, 1024);
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

comment on function pgq._check_topic_settings(integer, interval, bigint) is
'Refuses settings that a topic cannot have (22004, 22023).';

-- ==== sql/log/_first_available.sql

create function pgq._first_available(partition_id bigint)
returns bigint
language sql
stable
parallel safe
as $$
select r.first_offset
from pgq.segment_range as r
where r.partition_id = _first_available.partition_id
order by r.first_offset
limit 1
$$;

comment on function pgq._first_available(bigint) is
'The lowest offset of a partition that retention has not removed.';

-- ==== sql/log/_tip.sql

create function pgq._tip(partition_id bigint, segment integer, segment_first_offset bigint)
returns bigint
language sql
stable
parallel safe
as $$
select coalesce(
    (
        select m.log_offset
        from pgq.message as m
        where m.segment = _tip.segment
            and m.partition_id = _tip.partition_id
            and m.log_offset >= _tip.segment_first_offset
        order by m.log_offset desc
        limit 1
    ),
    _tip.segment_first_offset - 1
)
$$;

comment on function pgq._tip(bigint, integer, bigint) is
'The newest offset of a partition; 0 when it never had a message. The planner inlines it.';

-- ==== sql/log/_messages_across.sql

create function pgq._messages_across(
    partition_id bigint,
    partition integer,
    first_offset bigint,
    last_offset bigint
)
returns setof pgq.message_record
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    run record;
begin
    -- A topic whose retention was changed and changed back has several runs in one segment.
    for run in
        select r.segment, r.first_offset, r.next_first_offset - 1 as last_offset
        from (
            select
                s.segment,
                s.first_offset,
                lead(s.first_offset) over (order by s.first_offset) as next_first_offset
            from pgq.segment_range as s
            where s.partition_id = _messages_across.partition_id
        ) as r
        where r.first_offset <= _messages_across.last_offset
            and coalesce(r.next_first_offset > _messages_across.first_offset, true)
        order by r.first_offset
    loop
        return query
        select m.*
        from pgq._messages(
            run.segment,
            _messages_across.partition_id,
            _messages_across.partition,
            greatest(run.first_offset, _messages_across.first_offset),
            least(run.last_offset, _messages_across.last_offset)
        ) as m;
    end loop;
end
$$;

comment on function pgq._messages_across(bigint, integer, bigint, bigint) is
'The messages of one partition from a range that may go over several segments, in order.';

-- ==== sql/log/_offset_at.sql

create function pgq._offset_at(
    partition_id bigint,
    published_at timestamptz,
    first_available bigint,
    tip bigint
)
returns bigint
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
    low bigint := _offset_at.first_available;
    high bigint := _offset_at.tip + 1;
    middle bigint;
    middle_at timestamptz;
begin
    -- published_at rises with the offset, so halving finds the place without an index on the time.
    while low < high loop
        middle := low + (high - low) / 2;
        select m.published_at
        into middle_at
        from pgq.message as m
        where m.segment = (
                select r.segment
                from pgq.segment_range as r
                where r.partition_id = _offset_at.partition_id
                    and r.first_offset <= middle
                order by r.first_offset desc
                limit 1
            )
            and m.partition_id = _offset_at.partition_id
            and m.log_offset = middle;

        if middle_at < _offset_at.published_at then
            low := middle + 1;
        else
            high := middle;
        end if;
    end loop;
    return low;
end
$$;

comment on function pgq._offset_at(bigint, timestamptz, bigint, bigint) is
'The first offset of a partition that was published at a time or later; the tip + 1 when there is
none. The view topic_stats calls it with the rights of its reader, so it is open to all.';

-- ==== sql/log/list_offsets.sql

create function pgq.list_offsets(topic text, published_at timestamptz default null)
returns table (partition integer, first_offset bigint, last_offset bigint, log_offset bigint)
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
begin
    return query
    select
        s.partition,
        s.first_offset,
        s.last_offset,
        case
            when list_offsets.published_at is not null
                then pgq._offset_at(
                    s.partition_id, list_offsets.published_at, s.first_offset, s.last_offset
                )
        end
    from (
        select
            p.partition,
            p.partition_id,
            pgq._first_available(p.partition_id) as first_offset,
            pgq._tip(p.partition_id, p.segment, p.segment_first_offset) as last_offset
        from pgq.topic as t
        inner join pgq.partition as p on p.topic_id = t.topic_id
        where t.topic = list_offsets.topic
    ) as s
    order by s.partition;

    if not found then
        perform pgq._fail_unknown_topic(list_offsets.topic);
    end if;
end
$$;

comment on function pgq.list_offsets(text, timestamptz) is
'Returns the offsets that each partition of a topic has, from the first to the last that are kept.
An empty partition has last_offset = first_offset - 1. With published_at, log_offset is the first
that was published then or later, last_offset + 1 when there is none; else it is null. Whatever is
published later gets higher offsets, so ranges planned from here stay as they are.
Errors: MQ001 unknown topic, 22004 no topic.';

-- ==== sql/log/check_range.sql

create function pgq.check_range(
    topic text,
    partition integer,
    first_offset bigint,
    last_offset bigint
)
returns bigint
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
    place pgq.partition;
    first_available bigint;
    last_available bigint;
begin
    if check_range.first_offset is null or check_range.last_offset is null then
        raise exception 'argument "%" must not be null',
            case when check_range.first_offset is null then 'first_offset' else 'last_offset' end
            using errcode = '22004';
    end if;

    select p.*
    into place
    from pgq.topic as t
    inner join pgq.partition as p on p.topic_id = t.topic_id
    where t.topic = check_range.topic
        and p.partition = check_range.partition;

    if place.partition_id is null then
        perform pgq._fail_unknown_partition(t.topic, check_range.partition, t.partitions)
        from pgq.topic as t
        where t.topic = check_range.topic;

        perform pgq._fail_unknown_topic(check_range.topic);
    end if;

    if check_range.first_offset <= check_range.last_offset then
        first_available := pgq._first_available(place.partition_id);
        last_available := pgq._tip(
            place.partition_id, place.segment, place.segment_first_offset
        );

        -- An old snapshot (REPEATABLE READ) still has the bounds of a segment that was truncated
        -- since, but not its messages; so the first one is looked at.
        if check_range.first_offset < first_available
            or check_range.last_offset > last_available
            or not exists (
                select
                from pgq.message as m
                where m.segment = (
                        select r.segment
                        from pgq.segment_range as r
                        where r.partition_id = place.partition_id
                            and r.first_offset <= check_range.first_offset
                        order by r.first_offset desc
                        limit 1
                    )
                    and m.partition_id = place.partition_id
                    and m.log_offset = check_range.first_offset
            )
        then
            perform pgq._fail_out_of_range(
                check_range.topic,
                check_range.partition,
                case
                    when check_range.first_offset < first_available
                        or check_range.last_offset <= last_available
                        then check_range.first_offset
                    else greatest(check_range.first_offset, last_available + 1)
                end,
                first_available,
                last_available
            );
        end if;
    end if;

    return place.partition_id;
end
$$;

comment on function pgq.check_range(text, integer, bigint, bigint) is
'Returns the partition_id that a partition has in the view messages, if all of a range is there.
Read a range by it: select ... from pgq.messages where partition_id = (select
pgq.check_range(...)) and log_offset between ...; so a range that is not there any more, or not
yet, is an error there too.
Errors: MQ004 when a part of the range is not there: removed by retention, not yet published, or
not yet replicated (DETAIL has the available offsets), MQ001 unknown topic, MQ007 unknown
partition, 22004 null.';

-- ==== sql/log/_topic_info.sql

create function pgq._topic_info(topic text)
returns pgq.topic_info
language sql
stable
parallel safe
as $$
select
    t.topic,
    t.partitions,
    c.retention,
    c.max_bytes,
    t.notify,
    t.created_at,
    t.updated_at
from pgq.topic as t
inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
where t.topic = _topic_info.topic
$$;

comment on function pgq._topic_info(text) is
'A topic and its settings; null when there is none of that name.';

-- ==== sql/log/_add_partitions.sql

create function pgq._add_partitions(
    topic_id bigint,
    first_partition integer,
    last_partition integer
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    leaf integer;
begin
    -- The share lock keeps the segment open until this transaction ends.
    select t.segment
    into leaf
    from pgq.topic as t
    where t.topic_id = _add_partitions.topic_id
    for share;

    with added as (
        insert into pgq.partition (
            topic_id, partition, partition_id, segment, segment_first_offset, segment_entered_at
        )
        select
            _add_partitions.topic_id,
            n.number,
            nextval('pgq.partition_id'),
            leaf,
            1,
            '-infinity'
        from generate_series(
            _add_partitions.first_partition, _add_partitions.last_partition
        ) as n (number)
        returning partition_id
    )

    insert into pgq.segment_range (partition_id, first_offset, segment)
    select a.partition_id, 1, leaf
    from added as a;

    insert into pgq.group_partition (group_id, partition)
    select g.group_id, n.number
    from pgq.consumer_group as g
    cross join generate_series(
        _add_partitions.first_partition, _add_partitions.last_partition
    ) as n (number)
    where g.topic_id = _add_partitions.topic_id;

    insert into pgq.group_position (
        group_id, partition, seq, first_offset, next_offset, recorded_at
    )
    select g.group_id, n.number, 1, 1, 1, pgq._clock()
    from pgq.consumer_group as g
    cross join generate_series(
        _add_partitions.first_partition, _add_partitions.last_partition
    ) as n (number)
    where g.topic_id = _add_partitions.topic_id;
end
$$;

comment on function pgq._add_partitions(bigint, integer, integer) is
'Adds partitions to a topic; its groups read them from their first message.';

-- ==== sql/log/create_topic.sql

create function pgq.create_topic(
    topic text,
    partitions integer default 8,
    retention interval default '7 days',
    max_bytes bigint default null,
    notify boolean default false
)
returns pgq.topic_info
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    new_id bigint;
    class_id bigint;
begin
    perform pgq._check_name('topic', create_topic.topic);
    perform pgq._check_topic_settings(
        create_topic.partitions, create_topic.retention, create_topic.max_bytes
    );
    if create_topic.notify is null then
        raise exception 'argument "notify" must not be null'
            using errcode = '22004';
    end if;

    class_id := pgq._storage_class(create_topic.retention, null, null);
    insert into pgq.topic (
        topic, partitions, storage_class_id, segment, notify, created_at, updated_at
    )
    values (
        create_topic.topic,
        create_topic.partitions,
        class_id,
        pgq._open_segment_of(class_id),
        create_topic.notify,
        pgq._clock(),
        pgq._clock()
    )
    on conflict (topic) do nothing
    returning topic_id into new_id;

    if new_id is not null then
        if create_topic.max_bytes is not null then
            class_id := pgq._storage_class(create_topic.retention, create_topic.max_bytes, new_id);
            update pgq.topic as t
            set
                storage_class_id = class_id,
                segment = pgq._open_segment_of(class_id)
            where t.topic_id = new_id;
        end if;
        perform pgq._add_partitions(new_id, 0, create_topic.partitions - 1);
    end if;

    return pgq._topic_info(create_topic.topic);
end
$$;

comment on function pgq.create_topic(text, integer, interval, bigint, boolean) is
'Creates a topic and returns it; a topic of that name that exists already is returned as it is.
partitions (1 to 1024): one takes one publishing transaction at a time, so several let publishers
work side by side; use 1 only for one total order. retention: how long a message is kept at least,
and at most a third longer; null: for ever. max_bytes: when given, the oldest messages go as soon
as more than that is stored, of which at least this much is kept. notify: a publish notifies the
channel pgq_topic with the topic''s name; it makes commits wait for each other, so leave it off
where many publish. Topics with one retention share their storage; use few different ones.
Errors: 22023 bad name or setting, 22004 null.';

-- ==== sql/log/alter_topic.sql

create function pgq.alter_topic(
    topic text,
    partitions integer default null,
    retention interval default null,
    max_bytes bigint default null,
    notify boolean default null,
    no_limit text[] default null
)
returns pgq.topic_info
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    target pgq.topic;
    settings pgq.topic_info;
    class_id bigint;
begin
    select t.*
    into target
    from pgq.topic as t
    where t.topic = alter_topic.topic
    for no key update;

    if target.topic_id is null then
        perform pgq._fail_unknown_topic(alter_topic.topic);
    end if;
    perform pgq._check_no_limit(alter_topic.no_limit, array['max_bytes', 'retention']);

    settings := pgq._topic_info(alter_topic.topic);
    settings.partitions := coalesce(alter_topic.partitions, settings.partitions);
    settings.retention := coalesce(alter_topic.retention, settings.retention);
    settings.max_bytes := coalesce(alter_topic.max_bytes, settings.max_bytes);
    settings.notify := coalesce(alter_topic.notify, settings.notify);
    if 'retention' = any(alter_topic.no_limit) then
        settings.retention := null;
    end if;
    if 'max_bytes' = any(alter_topic.no_limit) then
        settings.max_bytes := null;
    end if;
    perform pgq._check_topic_settings(
        settings.partitions, settings.retention, settings.max_bytes
    );
    if settings.partitions < target.partitions then
        raise exception 'the partitions of a topic cannot become fewer'
            using errcode = '22023',
                detail = format('Topic "%s" has %s.', target.topic, target.partitions);
    end if;

    class_id := pgq._storage_class(
        settings.retention,
        settings.max_bytes,
        case when settings.max_bytes is not null then target.topic_id end
    );
    update pgq.topic as t
    set
        partitions = settings.partitions,
        storage_class_id = class_id,
        segment = pgq._open_segment_of(class_id),
        notify = settings.notify,
        updated_at = pgq._clock()
    where t.topic_id = target.topic_id;

    perform pgq._add_partitions(
        target.topic_id, target.partitions, settings.partitions - 1
    );

    return pgq._topic_info(alter_topic.topic);
end
$$;

comment on function pgq.alter_topic(text, integer, interval, bigint, boolean, text[]) is
'Changes settings of a topic and returns it; what is null stays as it is.
partitions can only grow; then most keys move to another partition, so the order within a key
holds only for messages from before and for messages from after. A new retention or max_bytes is
for messages published from now on. no_limit lifts settings: retention, max_bytes.
Errors: MQ001 unknown topic, 22004 and 22023 bad settings.';

-- ==== sql/log/drop_topic.sql

create function pgq.drop_topic(topic text)
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
    partition_ids bigint[];
    group_ids bigint[];
begin
    -- Publishers that are under way end first; those that come later find nothing. They may need
    -- the row of the topic while they hold a partition, so it is locked after the partitions.
    perform
    from pgq.topic as t
    inner join pgq.partition as p on p.topic_id = t.topic_id
    where t.topic = drop_topic.topic
    order by p.partition
    for update of p;

    select t.*
    into target
    from pgq.topic as t
    where t.topic = drop_topic.topic
    for update;

    if target.topic_id is null then
        perform pgq._fail_unknown_topic(drop_topic.topic);
    end if;

    -- Partitions that were added in between.
    perform
    from pgq.partition as p
    where p.topic_id = target.topic_id
    order by p.partition
    for update;

    partition_ids := array(
        select p.partition_id from pgq.partition as p where p.topic_id = target.topic_id
    );
    group_ids := array(
        select g.group_id from pgq.consumer_group as g where g.topic_id = target.topic_id
    );

    delete from pgq.topic as t
    where t.topic_id = target.topic_id;

    -- Only now: members that were under way have ended, and noted their last position.
    delete from pgq.group_position as j
    where j.group_id = any(group_ids);

    perform pgq._forget_messages(partition_ids, target.storage_class_id);
end
$$;

comment on function pgq.drop_topic(text) is
'Removes a topic with its messages and consumer groups; waits for transactions that publish to it.
Errors: MQ001 unknown topic.';

-- ==== sql/log/list_topics.sql

create function pgq.list_topics()
returns setof pgq.topic_info
language sql
stable
parallel safe
security definer
set search_path = pgq, pg_temp
as $$
select i.*
from pgq.topic as t
cross join lateral pgq._topic_info(t.topic) as i
order by t.topic
$$;

comment on function pgq.list_topics() is
'All topics and their settings, by name.';

-- ==== sql/log/create_group.sql

create function pgq.create_group(
    topic text,
    consumer_group text,
    start text default 'earliest',
    out_of_range text default 'error'
)
returns pgq.group_info
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    target pgq.topic;
    new_id bigint;
    made pgq.group_info;
begin
    perform pgq._check_name('consumer_group', create_group.consumer_group);
    if (create_group.start in ('earliest', 'latest')) is not true then
        raise exception 'argument "start" must be earliest or latest'
            using errcode = case when create_group.start is null then '22004' else '22023' end;
    end if;
    if (create_group.out_of_range in ('error', 'skip')) is not true then
        raise exception 'argument "out_of_range" must be error or skip'
            using errcode = case
                when create_group.out_of_range is null then '22004'
                else '22023'
            end;
    end if;

    -- The lock keeps the number of partitions.
    select t.*
    into target
    from pgq.topic as t
    where t.topic = create_group.topic
    for share;

    if target.topic_id is null then
        perform pgq._fail_unknown_topic(create_group.topic);
    end if;

    insert into pgq.consumer_group (topic_id, consumer_group, out_of_range, created_at)
    values (target.topic_id, create_group.consumer_group, create_group.out_of_range, pgq._clock())
    on conflict (topic_id, consumer_group) do nothing
    returning group_id into new_id;

    insert into pgq.group_partition (group_id, partition)
    select new_id, p.partition
    from pgq.partition as p
    where p.topic_id = target.topic_id
        and new_id is not null;

    insert into pgq.group_position (
        group_id, partition, seq, first_offset, next_offset, recorded_at
    )
    select new_id, s.partition, 1, s.next_offset, s.next_offset, pgq._clock()
    from (
        select
            p.partition,
            case create_group.start
                when 'earliest' then pgq._first_available(p.partition_id)
                else pgq._tip(p.partition_id, p.segment, p.segment_first_offset) + 1
            end as next_offset
        from pgq.partition as p
        where p.topic_id = target.topic_id
            and new_id is not null
    ) as s;

    select target.topic, g.consumer_group, g.out_of_range, g.created_at
    into made
    from pgq.consumer_group as g
    where g.topic_id = target.topic_id
        and g.consumer_group = create_group.consumer_group;

    return made;
end
$$;

comment on function pgq.create_group(text, text, text, text) is
'Creates a consumer group of a topic and returns it; one that exists already is returned as it is.
start: earliest (from the oldest message kept) or latest (only what is published from now on).
out_of_range: what happens when retention removed messages that the group has not read: error
(MQ004, until seek), or skip to the oldest that is there.
Errors: MQ001 unknown topic, 22023 bad name or setting, 22004 null.';

-- ==== sql/log/drop_group.sql

create function pgq.drop_group(topic text, consumer_group text)
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
    perform pgq._check_group(drop_group.topic, drop_group.consumer_group, null);

    delete from pgq.consumer_group as g
    using pgq.topic as t
    where t.topic = drop_group.topic
        and g.topic_id = t.topic_id
        and g.consumer_group = drop_group.consumer_group
    returning g.group_id
    into target_id;

    delete from pgq.group_position as j
    where j.group_id = target_id;
end
$$;

comment on function pgq.drop_group(text, text) is
'Removes a consumer group with its positions.
Errors: MQ001 unknown topic, MQ003 unknown group.';

-- ==== sql/log/list_groups.sql

create function pgq.list_groups(topic text default null)
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
        and not exists (select from pgq.topic as t where t.topic = list_groups.topic)
    then
        perform pgq._fail_unknown_topic(list_groups.topic);
    end if;

    return query
    select t.topic, g.consumer_group, g.out_of_range, g.created_at
    from pgq.topic as t
    inner join pgq.consumer_group as g on g.topic_id = t.topic_id
    where t.topic = coalesce(list_groups.topic, t.topic)
    order by t.topic, g.consumer_group;
end
$$;

comment on function pgq.list_groups(text) is
'The consumer groups of a topic, or of all topics, by name.
Errors: MQ001 unknown topic.';

-- ==== sql/log/_enter_segment.sql

create function pgq._enter_segment(topic text, state pgq._partition_state)
returns pgq._partition_state
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    entered pgq._partition_state := _enter_segment.state;
    tip_offset bigint;
    tip_published_at timestamptz;
begin
    -- The share lock keeps the segment open until this transaction ends. A caller that waited for
    -- the partition may have read an old topic row, so it is read again here.
    select t.segment
    into entered.topic_segment
    from pgq.topic as t
    where t.topic = _enter_segment.topic
    for share;

    if entered.topic_segment = entered.segment then
        return entered;
    end if;

    select m.log_offset, m.published_at
    into tip_offset, tip_published_at
    from pgq.message as m
    where m.segment = entered.segment
        and m.partition_id = entered.partition_id
        and m.log_offset >= entered.segment_first_offset
    order by m.log_offset desc
    limit 1;

    entered.segment := entered.topic_segment;
    entered.segment_first_offset := coalesce(tip_offset + 1, entered.segment_first_offset);
    entered.segment_entered_at := greatest(tip_published_at, entered.segment_entered_at);

    update pgq.partition as p
    set
        segment = entered.segment,
        segment_first_offset = entered.segment_first_offset,
        segment_entered_at = entered.segment_entered_at
    where p.partition_id = entered.partition_id;

    -- A segment that got no message of this partition leaves no range behind.
    insert into pgq.segment_range (partition_id, first_offset, segment)
    values (entered.partition_id, entered.segment_first_offset, entered.segment)
    on conflict (partition_id, first_offset) do update set segment = excluded.segment;

    return entered;
end
$$;

comment on function pgq._enter_segment(text, pgq._partition_state) is
'Moves a partition, whose row the caller has locked, to the segment that its topic writes to now.';

-- ==== sql/log/_lock_partition.sql

create function pgq._lock_partition(topic text, partition integer, key text)
returns pgq._partition_state
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    state pgq._partition_state;
    start_at integer;
begin
    if _lock_partition.partition is not null or _lock_partition.key is not null then
        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            t.segment,
            t.notify
        into state
        from pgq.topic as t
        inner join pgq.partition as p
            on p.topic_id = t.topic_id
            and p.partition = coalesce(
                _lock_partition.partition,
                (hashtextextended(_lock_partition.key, 0) % t.partitions + t.partitions)
                % t.partitions
            )
        where t.topic = _lock_partition.topic
        for no key update of p;
    else
        -- Sessions begin at different partitions, and all move on by one every second: so they
        -- seldom meet, and one publisher alone still fills every partition.
        start_at := (pg_backend_pid() + date_part('epoch', now())::bigint) % 1000000;

        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            t.segment,
            t.notify
        into state
        from pgq.topic as t
        inner join pgq.partition as p
            on p.topic_id = t.topic_id
            and p.partition = start_at % t.partitions
        where t.topic = _lock_partition.topic
        for no key update of p skip locked;

        if state.partition is null then
            select
                p.partition,
                p.partition_id,
                p.segment,
                p.segment_first_offset,
                p.segment_entered_at,
                t.segment,
                t.notify
            into state
            from pgq.topic as t
            inner join pgq.partition as p on p.topic_id = t.topic_id
            where t.topic = _lock_partition.topic
            order by (p.partition - start_at % t.partitions + t.partitions) % t.partitions
            limit 1
            for no key update of p skip locked;
        end if;

        if state.partition is null then
            -- All are held: wait for the one that this session began with.
            select s.*
            into state
            from pgq.topic as t
            cross join lateral pgq._lock_partition(t.topic, start_at % t.partitions, null) as s
            where t.topic = _lock_partition.topic;
        end if;
    end if;

    if state.partition is null then
        perform pgq._fail_unknown_partition(t.topic, _lock_partition.partition, t.partitions)
        from pgq.topic as t
        where t.topic = _lock_partition.topic
            and _lock_partition.partition not between 0 and t.partitions - 1;

        if exists (select from pgq.topic as t where t.topic = _lock_partition.topic) then
            -- It was dropped and made anew while this call waited for it.
            return pgq._lock_partition(
                _lock_partition.topic, _lock_partition.partition, _lock_partition.key
            );
        end if;

        perform pgq._fail_unknown_topic(_lock_partition.topic);
    end if;

    if state.segment <> state.topic_segment then
        state := pgq._enter_segment(_lock_partition.topic, state);
    end if;

    return state;
end
$$;

comment on function pgq._lock_partition(text, integer, text) is
'Locks the partition that a message goes to until the transaction ends, and says where it stands.
The named one, else the one of the key, else any that is free now. Raises MQ001, MQ007.';

-- ==== sql/log/_publish_spread.sql

create function pgq._publish_spread(
    topic text,
    payloads jsonb[],
    bodies bytea[],
    keys text[],
    headers jsonb[],
    partition integer
)
returns setof pgq.offset_range
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.topic;
    state pgq._partition_state;
    homes integer[];
    fallback integer;
    stamp timestamptz;
    -- What was found of each partition, by its number, and the offset of each message.
    tip record;
    tips bigint[];
    newest bigint[];
    ids bigint[];
    segments integer[];
    stamps timestamptz[];
    offsets bigint[] := array_fill(
        null::bigint, array[cardinality(coalesce(_publish_spread.payloads, '{}'))
            + cardinality(coalesce(_publish_spread.bodies, '{}'))]
    );
    home integer;
    place integer := 0;
begin
    select t.*
    into target
    from pgq.topic as t
    where t.topic = _publish_spread.topic;

    if target.topic_id is null then
        perform pgq._fail_unknown_topic(_publish_spread.topic);
    end if;

    -- Messages without a key go where one with a key goes, or else where there is room: taking a
    -- free partition besides the keyed ones would break the order in which locks are taken.
    fallback := coalesce(
        _publish_spread.partition,
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
            target.segment,
            target.notify
        from pgq.partition as p
        where p.topic_id = target.topic_id
            and p.partition = any(homes)
        order by p.partition
        for no key update
    loop
        if state.segment <> state.topic_segment then
            perform pgq._enter_segment(_publish_spread.topic, state);
        end if;
    end loop;

    if not found then
        -- The topic was dropped while this call waited for its partitions, and perhaps made anew.
        return query
        select s.partition, s.first_offset, s.last_offset
        from pgq._publish_spread(
            _publish_spread.topic,
            _publish_spread.payloads,
            _publish_spread.bodies,
            _publish_spread.keys,
            _publish_spread.headers,
            _publish_spread.partition
        ) as s;
        return;
    end if;

    stamp := pgq._clock();

    -- A new statement: its snapshot is younger than the locks, so it sees the newest offsets.
    for tip in
        select
            p.partition,
            p.partition_id,
            p.segment,
            coalesce(m.log_offset, p.segment_first_offset - 1) as log_offset,
            greatest(stamp, m.published_at, p.segment_entered_at) as published_at
        from pgq.partition as p
        left join lateral (
            select n.log_offset, n.published_at
            from pgq.message as n
            where n.segment = p.segment
                and n.partition_id = p.partition_id
                and n.log_offset >= p.segment_first_offset
            order by n.log_offset desc
            limit 1
        ) as m on true
        where p.topic_id = target.topic_id
            and p.partition = any(homes)
    loop
        tips[tip.partition] := tip.log_offset;
        newest[tip.partition] := tip.log_offset;
        ids[tip.partition] := tip.partition_id;
        segments[tip.partition] := tip.segment;
        stamps[tip.partition] := tip.published_at;
    end loop;

    -- In a loop: it takes less time than a window function, which has to sort the messages.
    foreach home in array homes loop
        newest[home] := newest[home] + 1;
        place := place + 1;
        offsets[place] := newest[home];
    end loop;

    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    select
        ids[b.home],
        b.log_offset,
        stamps[b.home],
        segments[b.home],
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
    ) as b;

    return query
    select g.partition, tips[g.partition] + 1, newest[g.partition]
    from generate_subscripts(tips, 1) as g (partition)
    where tips[g.partition] is not null
    order by g.partition;

    if target.notify then
        perform pg_notify('pgq_topic', _publish_spread.topic);
    end if;
end
$$;

comment on function pgq._publish_spread(text, jsonb[], bytea[], text[], jsonb[], integer) is
'The part of publish_batch that writes to several partitions; locks them in ascending order.';

-- ==== sql/log/publish_batch.sql

create function pgq.publish_batch(
    topic text,
    payloads jsonb[] default null,
    bodies bytea[] default null,
    keys text[] default null,
    headers jsonb[] default null,
    partition integer default null
)
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
    size integer;
    state pgq._partition_state;
    published pgq.offset_range;
    tip_offset bigint;
    tip_published_at timestamptz;
begin
    size := pgq._check_batch(
        publish_batch.payloads,
        publish_batch.bodies,
        publish_batch.keys,
        publish_batch.headers,
        null
    );

    if size = 0 then
        if not exists (select from pgq.topic as t where t.topic = publish_batch.topic) then
            perform pgq._fail_unknown_topic(publish_batch.topic);
        end if;
        return;
    end if;

    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        -- The snapshot may be older than the newest message. The index then refuses the offset.
        begin
            return query
            select s.partition, s.first_offset, s.last_offset
            from pgq._publish_spread(
                publish_batch.topic,
                publish_batch.payloads,
                publish_batch.bodies,
                publish_batch.keys,
                publish_batch.headers,
                publish_batch.partition
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
        select s.partition, s.first_offset, s.last_offset
        from pgq._publish_spread(
            publish_batch.topic,
            publish_batch.payloads,
            publish_batch.bodies,
            publish_batch.keys,
            publish_batch.headers,
            null
        ) as s;
        return;
    end if;

    state := pgq._lock_partition(publish_batch.topic, publish_batch.partition, null);

    -- A new statement: its snapshot is younger than the lock, so it sees the newest offset.
    select m.log_offset, m.published_at
    into tip_offset, tip_published_at
    from pgq.message as m
    where m.segment = state.segment
        and m.partition_id = state.partition_id
        and m.log_offset >= state.segment_first_offset
    order by m.log_offset desc
    limit 1;

    published.partition := state.partition;
    published.first_offset := coalesce(tip_offset + 1, state.segment_first_offset);
    published.last_offset := published.first_offset + size - 1;
    tip_published_at := greatest(pgq._clock(), tip_published_at, state.segment_entered_at);

    -- Functions in one select list run side by side; those of absent arrays give nulls.
    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    select
        state.partition_id,
        b.log_offset,
        tip_published_at,
        state.segment,
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

    if state.notify then
        perform pg_notify('pgq_topic', publish_batch.topic);
    end if;

    return next published;
end
$$;

comment on function pgq.publish_batch(text, jsonb[], bytea[], text[], jsonb[], integer) is
'Appends messages to a topic, all or none, and returns the offsets written: one row per partition.
Pass payloads (JSON) or bodies (raw bytes), not both; keys and headers are optional and of the
same length. With a partition named, all go there; else each goes to the partition of its key;
without keys, all go to one partition that is free. In each partition they stand in the order of
the array. The partitions are locked for other publishers until the transaction ends. An empty
array writes nothing.
Errors: MQ001 unknown topic, MQ007 unknown partition, 22004 no content or a null in it, 22023 two
contents or arrays of other lengths, 40001 under REPEATABLE READ or SERIALIZABLE when another
publisher was first.';

-- ==== sql/log/publish.sql

create function pgq.publish(
    topic text,
    payload jsonb default null,
    key text default null,
    headers jsonb default null,
    partition integer default null,
    body bytea default null
)
returns pgq.message_position
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
    home record;
    tip_offset bigint;
    tip_published_at timestamptz;
    published pgq.message_position;
begin
    if (publish.payload is null) = (publish.body is null)
        or publish.headers is not null
        or current_setting('transaction_isolation') in ('repeatable read', 'serializable')
    then
        perform pgq._check_content(publish.payload, publish.body, publish.headers);

        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            select b.partition, b.first_offset
            into published
            from pgq.publish_batch(
                publish.topic,
                case when publish.payload is not null then array[publish.payload] end,
                case when publish.body is not null then array[publish.body] end,
                array[publish.key],
                array[publish.headers],
                publish.partition
            ) as b;

            return published;
        end if;
    end if;

    -- What _lock_partition does first, here without the call: it takes less time.
    if publish.partition is null and publish.key is null then
        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            t.segment as topic_segment,
            t.notify
        into home
        from pgq.topic as t
        inner join pgq.partition as p
            on p.topic_id = t.topic_id
            and p.partition
            = (pg_backend_pid() + date_part('epoch', now())::bigint) % t.partitions
        where t.topic = publish.topic
        for no key update of p skip locked;
    else
        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            t.segment as topic_segment,
            t.notify
        into home
        from pgq.topic as t
        inner join pgq.partition as p
            on p.topic_id = t.topic_id
            and p.partition = coalesce(
                publish.partition,
                (hashtextextended(publish.key, 0) % t.partitions + t.partitions) % t.partitions
            )
        where t.topic = publish.topic
        for no key update of p;
    end if;

    if (home.segment = home.topic_segment) is not true then
        home := pgq._lock_partition(publish.topic, publish.partition, publish.key);
    end if;

    -- A new statement: its snapshot is younger than the lock, so it sees the newest offset.
    select m.log_offset, m.published_at
    into tip_offset, tip_published_at
    from pgq.message as m
    where m.segment = home.segment
        and m.partition_id = home.partition_id
        and m.log_offset >= home.segment_first_offset
    order by m.log_offset desc
    limit 1;

    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    values (
        home.partition_id,
        coalesce(tip_offset + 1, home.segment_first_offset),
        greatest(pgq._clock(), tip_published_at, home.segment_entered_at),
        home.segment,
        publish.key,
        publish.headers,
        publish.payload,
        publish.body
    )
    returning home.partition, log_offset
    into published;

    if home.notify then
        perform pg_notify('pgq_topic', publish.topic);
    end if;

    return published;
end
$$;

comment on function pgq.publish(text, jsonb, text, jsonb, integer, bytea) is
'Appends one message to a topic and returns its partition and offset.
Pass payload (JSON) or body (raw bytes), not both. The message goes to the partition that is
named, else to the one that its key belongs to, else to any that is free. That partition is then
locked for other publishers until the transaction ends: publish last, or commit soon.
Errors: MQ001 unknown topic, MQ007 unknown partition, 22004 no content, 22023 two contents or
headers that are no object, 40001 under REPEATABLE READ or SERIALIZABLE when another publisher was
first (try again).';

-- ==== sql/log/_lock_group.sql

create function pgq._lock_group(
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
    attempts integer := 0;
begin
    loop
        attempts := attempts + 1;
        if _lock_group.partition is not null then
            select
                g.group_id,
                l.partition,
                p.partition_id,
                p.segment,
                p.segment_first_offset,
                g.out_of_range
            into state
            from pgq.topic as t
            inner join pgq.consumer_group as g on g.topic_id = t.topic_id
            inner join pgq.partition as p on p.topic_id = t.topic_id
            inner join pgq.group_partition as l
                on l.group_id = g.group_id
                and l.partition = p.partition
            where t.topic = _lock_group.topic
                and g.consumer_group = _lock_group.consumer_group
                and p.partition = _lock_group.partition
            for no key update of l;
        elsif attempts = 1 then
            -- Members begin at different partitions, and all move on by one every second: so they
            -- seldom meet, and mostly one look is enough. Only a partition that has something to
            -- read is locked. Should another member be faster, its row of the journal has the
            -- number that the caller is about to use.
            select
                g.group_id,
                p.partition,
                p.partition_id,
                p.segment,
                p.segment_first_offset,
                g.out_of_range,
                q.seq,
                q.next_offset,
                q.leased_until,
                q.lease_token,
                q.lease_last_offset
            into state
            from pgq.topic as t
            inner join pgq.consumer_group as g on g.topic_id = t.topic_id
            inner join pgq.partition as p on p.topic_id = t.topic_id
            cross join lateral (
                select j.*
                from pgq.group_position as j
                where j.group_id = g.group_id
                    and j.partition = p.partition
                order by j.seq desc
                limit 1
            ) as q
            where t.topic = _lock_group.topic
                and g.consumer_group = _lock_group.consumer_group
                and p.partition
                = (pg_backend_pid() + date_part('epoch', now())::bigint) % t.partitions
                and (q.leased_until is null or q.leased_until <= pgq._clock());

            continue when state.group_id is null;

            select m.log_offset
            into state.tip
            from pgq.message as m
            where m.segment = state.segment
                and m.partition_id = state.partition_id
                and m.log_offset >= state.segment_first_offset
            order by m.log_offset desc
            limit 1;
            state.tip := coalesce(state.tip, state.segment_first_offset - 1);

            continue when state.tip < state.next_offset;

            perform
            from pgq.group_partition as l
            where l.group_id = state.group_id
                and l.partition = state.partition
            for no key update skip locked;

            continue when not found;
            return state;
        else
            -- Of the partitions that have something to read and that no member holds, the one that
            -- was read longest ago.
            select
                g.group_id,
                l.partition,
                p.partition_id,
                p.segment,
                p.segment_first_offset,
                g.out_of_range
            into state
            from pgq.topic as t
            inner join pgq.consumer_group as g on g.topic_id = t.topic_id
            inner join pgq.partition as p on p.topic_id = t.topic_id
            inner join pgq.group_partition as l
                on l.group_id = g.group_id
                and l.partition = p.partition
            cross join lateral (
                select j.next_offset, j.recorded_at, j.leased_until
                from pgq.group_position as j
                where j.group_id = g.group_id
                    and j.partition = p.partition
                order by j.seq desc
                limit 1
            ) as q
            where t.topic = _lock_group.topic
                and g.consumer_group = _lock_group.consumer_group
                and (q.leased_until is null or q.leased_until <= pgq._clock())
                and (
                    q.next_offset < p.segment_first_offset
                    or exists (
                        select from pgq.message as m
                        where m.segment = p.segment
                            and m.partition_id = p.partition_id
                            and m.log_offset >= q.next_offset
                    )
                )
            order by q.recorded_at
            limit 1
            for no key update of l skip locked;
        end if;

        if state.group_id is null then
            perform pgq._check_group(
                _lock_group.topic, _lock_group.consumer_group, _lock_group.partition
            );
            -- The named partition is there: it was made anew while this call waited for it.
            continue when _lock_group.partition is not null;
            return null;
        end if;

        -- A new statement: its snapshot is younger than the lock. Should the partition have entered
        -- another segment since it was read above, the tip is that of the segment before.
        select
            j.seq,
            j.next_offset,
            j.leased_until,
            j.lease_token,
            j.lease_last_offset,
            coalesce(
                (
                    select m.log_offset
                    from pgq.message as m
                    where m.segment = state.segment
                        and m.partition_id = state.partition_id
                        and m.log_offset >= state.segment_first_offset
                    order by m.log_offset desc
                    limit 1
                ),
                state.segment_first_offset - 1
            )
        into
            state.seq,
            state.next_offset,
            state.leased_until,
            state.lease_token,
            state.lease_last_offset,
            state.tip
        from pgq.group_position as j
        where j.group_id = state.group_id
            and j.partition = state.partition
        order by j.seq desc
        limit 1;

        if not _lock_group.available_only
            or (state.tip >= state.next_offset
                and (state.leased_until is null or state.leased_until <= pgq._clock()))
        then
            return state;
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
member holds it. Raises MQ001, MQ003, MQ007.';

-- ==== sql/log/_append_position.sql

create function pgq._append_position(
    state pgq._group_state,
    next_offset bigint,
    leased_until timestamptz,
    lease_token uuid
)
returns void
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
        lease_last_offset
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
        end
    )
    on conflict do nothing;
end
$$;

comment on function pgq._append_position(pgq._group_state, bigint, timestamptz, uuid) is
'Notes a new position or lease of a group in a partition whose row the caller has locked.
Under REPEATABLE READ another member''s newer row makes it raise 40001.';

-- ==== sql/log/_claim.sql

create function pgq._claim(
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
    state pgq._group_state;
    claimed pgq._claim_state;
    first_available bigint;
begin
    if (_claim.max_messages between 1 and 1000000) is not true then
        perform pgq._check_count('max_messages', _claim.max_messages, 1, 1000000);
    end if;

    loop
        state := pgq._lock_group(_claim.topic, _claim.consumer_group, _claim.partition, true);
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
                        _claim.topic, state.partition, state.next_offset, first_available, state.tip
                    );
                end if;
                claimed.first_offset := first_available;
                if first_available > state.tip then
                    -- Retention has left nothing here. Note that, or this partition would look
                    -- like the one to read for ever.
                    perform pgq._append_position(state, first_available, null, null);
                    continue;
                end if;
            end if;
        end if;

        claimed.partition := state.partition;
        claimed.partition_id := state.partition_id;
        claimed.last_offset := least(state.tip, claimed.first_offset + _claim.max_messages - 1);
        if _claim.lease is not null then
            claimed.lease_token := gen_random_uuid();
        end if;

        -- Where another member was faster its row has this number: look again. Under REPEATABLE
        -- READ the conflict raises 40001.
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
            state.group_id,
            state.partition,
            state.seq + 1,
            claimed.first_offset,
            case
                when _claim.lease is null then claimed.last_offset + 1
                else claimed.first_offset
            end,
            pgq._clock(),
            pgq._clock() + _claim.lease,
            claimed.lease_token,
            case when _claim.lease is not null then claimed.last_offset end
        )
        on conflict do nothing;

        if found then
            return claimed;
        end if;
    end loop;
end
$$;

comment on function pgq._claim(text, text, integer, integer, interval) is
'The common part of claim_offsets, consume and poll: takes the next messages of a partition for a
group, for good when lease is null. Null: nothing to read. Its segment is null when they may stand
in several.';

-- ==== sql/log/claim_offsets.sql

create function pgq.claim_offsets(
    topic text,
    consumer_group text,
    max_messages integer default 100,
    partition integer default null
)
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
    claimed pgq._claim_state;
begin
    claimed := pgq._claim(
        claim_offsets.topic,
        claim_offsets.consumer_group,
        claim_offsets.max_messages,
        claim_offsets.partition,
        null
    );
    if claimed.partition is null then
        return;
    end if;

    return query
    select claimed.partition, claimed.first_offset, claimed.last_offset;
end
$$;

comment on function pgq.claim_offsets(text, text, integer, integer) is
'Takes the next messages for a consumer group and moves its position past them.
It does so in this transaction. Returns one row with the partition and its first and last offset,
to be read with fetch_range; no row when there is nothing to read. If the transaction is rolled
back, or the client dies, the messages are given out again. Without a partition it takes one that
has messages and that no other member holds, so members come and go freely; other members skip that
partition until this transaction ends. max_messages: 1 to 1000000.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ007 unknown partition, MQ004 retention has
removed the next message, 22004 and 22023 bad max_messages, 40001 under REPEATABLE READ when
another member was first.';

-- ==== sql/log/fetch_range.sql

create function pgq.fetch_range(
    topic text,
    partition integer,
    first_offset bigint,
    last_offset bigint
)
returns setof pgq.message_record
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
    place pgq.partition;
    found bigint;
begin
    if fetch_range.first_offset is null or fetch_range.last_offset is null then
        raise exception 'argument "%" must not be null',
            case when fetch_range.first_offset is null then 'first_offset' else 'last_offset' end
            using errcode = '22004';
    end if;

    select p.*
    into place
    from pgq.topic as t
    inner join pgq.partition as p on p.topic_id = t.topic_id
    where t.topic = fetch_range.topic
        and p.partition = fetch_range.partition;

    if place.partition_id is null then
        perform pgq._fail_unknown_partition(t.topic, fetch_range.partition, t.partitions)
        from pgq.topic as t
        where t.topic = fetch_range.topic;

        perform pgq._fail_unknown_topic(fetch_range.topic);
    end if;

    if fetch_range.first_offset > fetch_range.last_offset then
        return;
    end if;

    if fetch_range.first_offset >= place.segment_first_offset then
        return query
        select m.*
        from pgq._messages(
            place.segment,
            place.partition_id,
            fetch_range.partition,
            fetch_range.first_offset,
            fetch_range.last_offset
        ) as m;
    else
        return query
        select m.*
        from pgq._messages_across(
            place.partition_id,
            fetch_range.partition,
            fetch_range.first_offset,
            fetch_range.last_offset
        ) as m;
    end if;
    get diagnostics found = row_count;

    -- Never less than was asked for without a word: offsets have no gaps.
    if fetch_range.first_offset + found <= fetch_range.last_offset then
        perform pgq._fail_out_of_range(
            fetch_range.topic,
            fetch_range.partition,
            case
                when fetch_range.first_offset < s.first_available then fetch_range.first_offset
                else greatest(fetch_range.first_offset, s.last_available + 1)
            end,
            s.first_available,
            s.last_available
        )
        from (
            select
                pgq._first_available(place.partition_id) as first_available,
                pgq._tip(place.partition_id, place.segment, place.segment_first_offset)
                    as last_available
        ) as s;
    end if;
end
$$;

comment on function pgq.fetch_range(text, integer, bigint, bigint) is
'Returns the messages of a partition from first_offset to last_offset, both included, in order.
Reads only: no position moves, and it works on a standby. An empty range (first above last) gives
no rows.
Errors: MQ004 when a part of the range is not there: removed by retention, not yet published, or
not yet replicated (DETAIL has the available offsets), MQ001 unknown topic, MQ007 unknown
partition, 22004 null.';

-- ==== sql/log/consume.sql

create function pgq.consume(
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
    claimed pgq._claim_state;
    read_rows bigint;
begin
    claimed := pgq._claim(
        consume.topic, consume.consumer_group, consume.max_messages, consume.partition, null
    );
    if claimed.partition is null then
        return;
    end if;

    if claimed.segment is not null then
        return query
        select m.*
        from pgq._messages(
            claimed.segment,
            claimed.partition_id,
            claimed.partition,
            claimed.first_offset,
            claimed.last_offset
        ) as m;
    else
        return query
        select m.*
        from pgq._messages_across(
            claimed.partition_id, claimed.partition, claimed.first_offset, claimed.last_offset
        ) as m;
    end if;

    -- Cleanup may have emptied a segment since the claim.
    get diagnostics read_rows = row_count;
    if read_rows <> claimed.last_offset - claimed.first_offset + 1 then
        perform pgq._fail_truncated(consume.topic);
    end if;
end
$$;

comment on function pgq.consume(text, text, integer, integer) is
'Takes the next messages for a consumer group, moves its position past them, and returns them.
It is claim_offsets and fetch_range in one. The position moves in this transaction: what the caller
writes in it happens exactly once for each message, and after a rollback the messages are given out
again. No row: nothing to read. All rows are of one partition, in order. max_messages: 1 to
1000000.
Errors: those of claim_offsets, and 40001 when retention removes what is being read (try again).';

-- ==== sql/log/fetch.sql

create function pgq.fetch(
    topic text,
    consumer_group text,
    max_messages integer default 100,
    partition integer default null
)
returns setof pgq.message_record
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
    place record;
    room bigint;
    last_offset bigint;
    first_available bigint;
begin
    perform pgq._check_count('max_messages', "fetch".max_messages, 1, 1000000);
    perform pgq._check_group("fetch".topic, "fetch".consumer_group, "fetch".partition);
    room := "fetch".max_messages;

    for place in
        select
            p.*,
            g.out_of_range,
            q.next_offset,
            pgq._tip(p.partition_id, p.segment, p.segment_first_offset) as tip
        from pgq.topic as t
        inner join pgq.consumer_group as g on g.topic_id = t.topic_id
        inner join pgq.partition as p on p.topic_id = t.topic_id
        cross join lateral (
            select j.next_offset
            from pgq.group_position as j
            where j.group_id = g.group_id
                and j.partition = p.partition
            order by j.seq desc
            limit 1
        ) as q
        where t.topic = "fetch".topic
            and g.consumer_group = "fetch".consumer_group
            and p.partition = coalesce("fetch".partition, p.partition)
        order by p.partition
    loop
        if place.next_offset < place.segment_first_offset then
            first_available := pgq._first_available(place.partition_id);
            if place.next_offset < first_available then
                if place.out_of_range = 'error' then
                    perform pgq._fail_out_of_range(
                        "fetch".topic,
                        place.partition,
                        place.next_offset,
                        first_available,
                        place.tip
                    );
                end if;
                place.next_offset := first_available;
            end if;
        end if;

        last_offset := least(place.tip, place.next_offset + room - 1);
        continue when last_offset < place.next_offset;

        return query
        select m.*
        from pgq._messages_across(
            place.partition_id, place.partition, place.next_offset, last_offset
        ) as m;

        room := room - (last_offset - place.next_offset + 1);
        exit when room = 0;
    end loop;
end
$$;

comment on function pgq.fetch(text, text, integer, integer) is
'Returns the next messages of a consumer group without moving its position.
Twice in a row it returns the same messages; commit_offset moves the position. Without a
partition, those of all partitions one after the other, up to max_messages (1 to 1000000). Use it
where the caller sees to it that each partition has one reader; poll does that by leases. Reads
only, so it works on a standby.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ007 unknown partition, MQ004 retention has
removed the next message, 22004 and 22023 bad max_messages.';

-- ==== sql/log/poll.sql

create function pgq.poll(
    topic text,
    consumer_group text,
    max_messages integer default 100,
    lease interval default '30 seconds',
    partition integer default null
)
returns setof pgq.leased_message
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
    claimed pgq._claim_state;
    read_rows bigint;
begin
    if (poll.lease > interval '0' and poll.lease <= interval '36500 days') is not true then
        perform pgq._check_interval('lease', poll.lease, false);
    end if;

    claimed := pgq._claim(
        poll.topic, poll.consumer_group, poll.max_messages, poll.partition, poll.lease
    );
    if claimed.partition is null then
        return;
    end if;

    if claimed.segment is not null then
        return query
        select claimed.lease_token, m.*
        from pgq._messages(
            claimed.segment,
            claimed.partition_id,
            claimed.partition,
            claimed.first_offset,
            claimed.last_offset
        ) as m;
    else
        return query
        select claimed.lease_token, m.*
        from pgq._messages_across(
            claimed.partition_id, claimed.partition, claimed.first_offset, claimed.last_offset
        ) as m;
    end if;

    -- Cleanup may have emptied a segment since the claim.
    get diagnostics read_rows = row_count;
    if read_rows <> claimed.last_offset - claimed.first_offset + 1 then
        perform pgq._fail_truncated(poll.topic);
    end if;
end
$$;

comment on function pgq.poll(text, text, integer, interval, integer) is
'Leases a partition to the caller and returns the next messages of it.
The position does not move yet. Until the lease ends the other members of the group get other
partitions. commit_offset with the lease token moves the position; when the last message is
committed the partition is free again. extend_poll keeps it longer, release gives it back, and when
the lease runs out another member gets the same messages. All rows are of one partition, in order,
with one token. No row: nothing to read. The lease is counted by the clock, not from the begin of
the transaction; commit before working, else nobody else sees the lease. max_messages: 1 to
1000000; lease: more than 0.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ007 unknown partition, MQ004 retention has
removed the next message, 22004 and 22023 bad arguments, 40001 under REPEATABLE READ when another
member was first, or when retention removes what is being read (try again).';

-- ==== sql/log/extend_poll.sql

create function pgq.extend_poll(
    topic text,
    consumer_group text,
    partition integer,
    lease_token uuid,
    lease interval default '30 seconds'
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
    perform pgq._check_interval('lease', extend_poll.lease, false);
    perform pgq._check_lease_token(extend_poll.lease_token);
    if extend_poll.partition is null then
        perform pgq._fail_unknown_partition(extend_poll.topic, null, null);
    end if;

    state := pgq._lock_group(
        extend_poll.topic, extend_poll.consumer_group, extend_poll.partition, false
    );
    if extend_poll.lease_token is distinct from state.lease_token
        or state.leased_until <= pgq._clock()
    then
        return false;
    end if;

    perform pgq._append_position(
        state, state.next_offset, pgq._clock() + extend_poll.lease, state.lease_token
    );
    return true;
end
$$;

comment on function pgq.extend_poll(text, text, integer, uuid, interval) is
'Keeps a partition that poll leased for the given time from now, and says whether it did.
False: the lease has ended or was never the caller''s; stop working on its messages.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ007 unknown partition, 22004 and 22023 bad
arguments.';

-- ==== sql/log/release.sql

create function pgq.release(
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
    perform pgq._check_lease_token(release.lease_token);
    if release.partition is null then
        perform pgq._fail_unknown_partition(release.topic, null, null);
    end if;

    state := pgq._lock_group(release.topic, release.consumer_group, release.partition, false);
    if release.lease_token is distinct from state.lease_token then
        return false;
    end if;

    perform pgq._append_position(state, state.next_offset, null, null);
    return true;
end
$$;

comment on function pgq.release(text, text, integer, uuid) is
'Gives a partition that poll leased back at once, and says whether it did.
What was not committed goes to the next member. False: the lease was not the caller''s any more.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ007 unknown partition, 22004 null argument.';

-- ==== sql/log/commit_offset.sql

create function pgq.commit_offset(
    topic text,
    consumer_group text,
    partition integer,
    last_offset bigint,
    lease_token uuid default null
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
    state pgq._group_state;
begin
    perform pgq._check_count(
        'last_offset', commit_offset.last_offset, 0, 9223372036854775806
    );
    if commit_offset.partition is null then
        perform pgq._fail_unknown_partition(commit_offset.topic, null, null);
    end if;

    state := pgq._lock_group(
        commit_offset.topic, commit_offset.consumer_group, commit_offset.partition, false
    );

    if commit_offset.last_offset > state.tip then
        perform pgq._fail_out_of_range(
            commit_offset.topic,
            state.partition,
            commit_offset.last_offset,
            pgq._first_available(state.partition_id),
            state.tip
        );
    end if;

    if commit_offset.last_offset < state.next_offset then
        return state.next_offset - 1;
    end if;

    -- A lease that has run out still counts as long as nobody else has taken the partition.
    if commit_offset.lease_token is distinct from state.lease_token
        and (commit_offset.lease_token is not null or state.leased_until > pgq._clock())
    then
        perform pgq._fail_lease_lost(
            commit_offset.topic, commit_offset.consumer_group, state.partition
        );
    end if;

    if commit_offset.lease_token is not null and commit_offset.last_offset < state.lease_last_offset
    then
        perform pgq._append_position(
            state, commit_offset.last_offset + 1, state.leased_until, state.lease_token
        );
    else
        perform pgq._append_position(state, commit_offset.last_offset + 1, null, null);
    end if;

    return commit_offset.last_offset;
end
$$;

comment on function pgq.commit_offset(text, text, integer, bigint, uuid) is
'Moves the position of a consumer group in a partition behind last_offset and returns the position.
The position is the offset of the last message that the group has done with, 0 before the first. A
lower last_offset changes nothing, so a repeated call is harmless; to go back use seek. With the
lease token of poll, the lease ends when the last message that poll gave is committed; a lower
offset keeps the lease.
Errors: MQ004 last_offset is above the newest message, MQ006 the partition is leased to another
member, or was since (it would get the messages again), MQ001 unknown topic, MQ003 unknown group,
MQ007 unknown partition, 22004 and 22023 bad arguments, 40001 under REPEATABLE READ when another
member was first.';

-- ==== sql/log/seek.sql

create function pgq.seek(
    topic text,
    consumer_group text,
    partition integer default null,
    log_offset bigint default null,
    published_at timestamptz default null,
    start text default null
)
returns setof pgq.message_position
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
    moved pgq.message_position;
    first_available bigint;
begin
    if num_nonnulls(seek.log_offset, seek.published_at, seek.start) <> 1 then
        raise exception 'seek needs exactly one of log_offset, published_at and start'
            using errcode = '22023';
    end if;
    if seek.log_offset is not null and seek.partition is null then
        raise exception 'seek to an offset needs a partition'
            using errcode = '22023';
    end if;
    if seek.start not in ('earliest', 'latest') then
        raise exception 'argument "start" must be earliest or latest'
            using errcode = '22023';
    end if;
    perform pgq._check_group(seek.topic, seek.consumer_group, seek.partition);

    -- In ascending order, as everywhere, so that two callers cannot block each other.
    for number in
        select p.partition
        from pgq.topic as t
        inner join pgq.partition as p on p.topic_id = t.topic_id
        where t.topic = seek.topic
            and p.partition = coalesce(seek.partition, p.partition)
        order by p.partition
    loop
        state := pgq._lock_group(seek.topic, seek.consumer_group, number, false);
        first_available := pgq._first_available(state.partition_id);
        moved.partition := number;
        moved.log_offset := case
            when seek.log_offset is not null then seek.log_offset
            when seek.start = 'earliest' then first_available
            when seek.start = 'latest' then state.tip + 1
            else pgq._offset_at(
                state.partition_id, seek.published_at, first_available, state.tip
            )
        end;

        if moved.log_offset not between first_available and state.tip + 1 then
            perform pgq._fail_out_of_range(
                seek.topic, number, seek.log_offset, first_available, state.tip
            );
        end if;

        perform pgq._append_position(state, moved.log_offset, null, null);
        return next moved;
    end loop;
end
$$;

comment on function pgq.seek(text, text, integer, bigint, timestamptz, text) is
'Moves the position of a consumer group back or ahead, and returns where it reads next.
That is a row per partition. Give one of: log_offset (that message is read next; needs a
partition), published_at (the first message published then or later is read next), start (earliest
or latest). Without a partition: all of them. A lease of a member ends by it.
Errors: MQ004 there is no such offset, MQ001 unknown topic, MQ003 unknown group, MQ007 unknown
partition, 22023 not exactly one target, or a bad one, 40001 under REPEATABLE READ when another
member was first.';

-- ==== sql/queue/_fail_unknown_queue.sql

create function pgq._fail_unknown_queue(queue text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _fail_unknown_queue.queue is null then
        raise exception 'argument "queue" must not be null'
            using errcode = '22004';
    end if;
    raise exception 'unknown queue "%"', _fail_unknown_queue.queue
        using errcode = 'MQ002',
            hint = 'Create it with pgq.create_queue, or see pgq.list_queues for those that exist.';
end
$$;

comment on function pgq._fail_unknown_queue(text) is
'Raises MQ002, or 22004 when no name was given.';

-- ==== sql/queue/_check_lease.sql

create function pgq._check_lease(job_id bigint, lease_token uuid)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_lease.job_id is null then
        raise exception 'argument "job_id" must not be null'
            using errcode = '22004';
    end if;
    perform pgq._check_lease_token(_check_lease.lease_token);
end
$$;

comment on function pgq._check_lease(bigint, uuid) is
'Refuses a job that is named without its id or without a lease token (22004).';

-- ==== sql/queue/_check_leases.sql

create function pgq._check_leases(job_ids bigint[], lease_token uuid)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_leases.job_ids is null or array_position(_check_leases.job_ids, null) is not null then
        raise exception 'argument "job_ids" must not be null or contain null'
            using errcode = '22004';
    end if;
    perform pgq._check_lease_token(_check_leases.lease_token);
end
$$;

comment on function pgq._check_leases(bigint[], uuid) is
'Refuses jobs that are named without their ids or without a lease token (22004).';

-- ==== sql/queue/_check_outcome.sql

create function pgq._check_outcome(outcome text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_outcome.outcome is null then
        raise exception 'argument "outcome" must not be null'
            using errcode = '22004';
    end if;
    if length(_check_outcome.outcome) not between 1 and 63 then
        raise exception 'argument "outcome" must have 1 to 63 characters'
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_outcome(text) is
'Refuses an outcome that is null (22004), empty or long (22023).';

-- ==== sql/queue/_check_label.sql

create function pgq._check_label(label text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if length(_check_label.label) > 255 then
        raise exception 'a label has at most 255 characters'
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_label(text) is
'Refuses a label that is too long for its index (22023).';

-- ==== sql/queue/_check_queue_settings.sql

create function pgq._check_queue_settings(settings pgq.queue_info)
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
    if _check_queue_settings.settings.max_attempts is not null then
        perform pgq._check_count(
            'max_attempts', _check_queue_settings.settings.max_attempts, 1, 2147483647
        );
    end if;
    if (_check_queue_settings.settings.backoff_jitter between 0 and 1) is not true then
        raise exception 'argument "backoff_jitter" must be from 0 to 1'
            using errcode = case
                when _check_queue_settings.settings.backoff_jitter is null then '22004'
                else '22023'
            end;
    end if;
    if _check_queue_settings.settings.archive is null
        or _check_queue_settings.settings.notify is null
    then
        raise exception 'arguments "archive" and "notify" must not be null'
            using errcode = '22004';
    end if;
    if _check_queue_settings.settings.retention is not null then
        perform pgq._check_interval('retention', _check_queue_settings.settings.retention, false);
        if _check_queue_settings.settings.delay >= _check_queue_settings.settings.retention then
            raise exception 'the delay must be shorter than the retention'
                using errcode = '22023',
                    detail = format(
                        'Delay: %s; retention: %s.',
                        _check_queue_settings.settings.delay,
                        _check_queue_settings.settings.retention
                    );
        end if;
    end if;
end
$$;

comment on function pgq._check_queue_settings(pgq.queue_info) is
'Refuses settings that a queue cannot have (22004, 22023).';

-- ==== sql/queue/_queue_info.sql

create function pgq._queue_info(queue text)
returns pgq.queue_info
language sql
stable
parallel safe
as $$
select
    q.queue,
    q.lease,
    q.max_attempts,
    q.delay,
    q.retention,
    q.backoff,
    q.backoff_max,
    q.backoff_jitter,
    q.archive,
    q.notify,
    q.paused,
    q.created_at,
    q.updated_at
from pgq.queue as q
where q.queue = _queue_info.queue
$$;

comment on function pgq._queue_info(text) is
'A queue and its settings; null when there is none of that name.';

-- ==== sql/queue/create_queue.sql

create function pgq.create_queue(
    queue text,
    lease interval default '30 seconds',
    max_attempts integer default 5,
    delay interval default '0',
    retention interval default '14 days',
    backoff interval default '1 second',
    backoff_max interval default '1 hour',
    backoff_jitter double precision default 0.1,
    archive boolean default true,
    notify boolean default false
)
returns pgq.queue_info
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    settings pgq.queue_info;
    new_id bigint;
    class_id bigint;
begin
    perform pgq._check_name('queue', create_queue.queue);

    settings.queue := create_queue.queue;
    settings.lease := create_queue.lease;
    settings.max_attempts := create_queue.max_attempts;
    settings.delay := create_queue.delay;
    settings.retention := create_queue.retention;
    settings.backoff := create_queue.backoff;
    settings.backoff_max := create_queue.backoff_max;
    settings.backoff_jitter := create_queue.backoff_jitter;
    settings.archive := create_queue.archive;
    settings.notify := create_queue.notify;
    perform pgq._check_queue_settings(settings);

    class_id := pgq._storage_class(settings.retention, null, null);
    insert into pgq.queue (
        queue,
        partition_id,
        storage_class_id,
        segment,
        lease,
        max_attempts,
        delay,
        retention,
        backoff,
        backoff_max,
        backoff_jitter,
        archive,
        notify,
        created_at,
        updated_at
    )
    values (
        settings.queue,
        nextval('pgq.partition_id'),
        class_id,
        pgq._open_segment_of(class_id),
        settings.lease,
        settings.max_attempts,
        settings.delay,
        settings.retention,
        settings.backoff,
        settings.backoff_max,
        settings.backoff_jitter,
        settings.archive,
        settings.notify,
        pgq._clock(),
        pgq._clock()
    )
    on conflict (queue) do nothing
    returning queue_id into new_id;

    if new_id is null then
        raise exception 'queue "%" already exists', create_queue.queue
            using errcode = 'MQ005',
                hint = 'Change its settings with pgq.alter_queue.';
    end if;

    insert into pgq.queue_floor_lock (queue_id)
    values (new_id);

    insert into pgq.queue_floor (
        queue_id, seq, floor_times, floor_ids, recorded_at, safe_at, candidate_at, candidate_xid
    )
    values (
        new_id,
        1,
        array_fill('-infinity'::timestamptz, array[10]),
        array_fill(0::bigint, array[10]),
        '-infinity',
        '-infinity',
        '-infinity',
        '0'
    );

    return pgq._queue_info(create_queue.queue);
end
$$;

comment on function pgq.create_queue(
    text,
    interval,
    integer,
    interval,
    interval,
    interval,
    interval,
    double precision,
    boolean,
    boolean
) is
'Creates a queue and returns it.
lease: how long a worker has a job before another one may get it. max_attempts: deliveries before
a job is dead; null: no limit. delay: from enqueue to the first delivery. retention: from enqueue
until an unfinished job expires, and how long finished and dead ones are kept; null: for ever.
backoff: the delay before the first retry; each further one doubles it up to backoff_max, and up
to the share backoff_jitter (0 to 1) is added at random. archive: ack notes the job among the
archived ones. notify: an enqueue notifies the channel pgq_queue with the queue''s name.
Errors: MQ005 the queue exists already, 22023 bad name or setting, 22004 null.';

-- ==== sql/queue/alter_queue.sql

create function pgq.alter_queue(
    queue text,
    lease interval default null,
    max_attempts integer default null,
    delay interval default null,
    retention interval default null,
    backoff interval default null,
    backoff_max interval default null,
    backoff_jitter double precision default null,
    archive boolean default null,
    notify boolean default null,
    no_limit text[] default null
)
returns pgq.queue_info
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    settings pgq.queue_info;
    class_id bigint;
begin
    perform
    from pgq.queue as q
    where q.queue = alter_queue.queue
    for no key update;

    if not found then
        perform pgq._fail_unknown_queue(alter_queue.queue);
    end if;
    perform pgq._check_no_limit(alter_queue.no_limit, array['max_attempts', 'retention']);

    settings := pgq._queue_info(alter_queue.queue);
    settings.lease := coalesce(alter_queue.lease, settings.lease);
    settings.max_attempts := coalesce(alter_queue.max_attempts, settings.max_attempts);
    settings.delay := coalesce(alter_queue.delay, settings.delay);
    settings.retention := coalesce(alter_queue.retention, settings.retention);
    settings.backoff := coalesce(alter_queue.backoff, settings.backoff);
    settings.backoff_max := coalesce(alter_queue.backoff_max, settings.backoff_max);
    settings.backoff_jitter := coalesce(alter_queue.backoff_jitter, settings.backoff_jitter);
    settings.archive := coalesce(alter_queue.archive, settings.archive);
    settings.notify := coalesce(alter_queue.notify, settings.notify);
    if 'max_attempts' = any(alter_queue.no_limit) then
        settings.max_attempts := null;
    end if;
    if 'retention' = any(alter_queue.no_limit) then
        settings.retention := null;
    end if;
    perform pgq._check_queue_settings(settings);

    class_id := pgq._storage_class(settings.retention, null, null);
    update pgq.queue as q
    set
        storage_class_id = class_id,
        segment = pgq._open_segment_of(class_id),
        lease = settings.lease,
        max_attempts = settings.max_attempts,
        delay = settings.delay,
        retention = settings.retention,
        backoff = settings.backoff,
        backoff_max = settings.backoff_max,
        backoff_jitter = settings.backoff_jitter,
        archive = settings.archive,
        notify = settings.notify,
        updated_at = pgq._clock()
    where q.queue = alter_queue.queue;

    return pgq._queue_info(alter_queue.queue);
end
$$;

comment on function pgq.alter_queue(
    text,
    interval,
    integer,
    interval,
    interval,
    interval,
    interval,
    double precision,
    boolean,
    boolean,
    text[]
) is
'Changes settings of a queue and returns it; what is null stays as it is.
See create_queue for the settings. no_limit lifts settings: max_attempts, retention. Jobs that are
stored keep their times; a new lease counts from the next delivery.
Errors: MQ002 unknown queue, 22004 and 22023 bad settings.';

-- ==== sql/queue/drop_queue.sql

create function pgq.drop_queue(queue text)
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
begin
    delete from pgq.queue as q
    where q.queue = drop_queue.queue
    returning q.*
    into target;

    if target.queue_id is null then
        perform pgq._fail_unknown_queue(drop_queue.queue);
    end if;

    delete from pgq.job as j
    where j.queue_id = target.queue_id;
    delete from pgq.dead_job as d
    where d.queue_id = target.queue_id;
    delete from pgq.queue_floor as f
    where f.queue_id = target.queue_id;

    -- As for the messages: where there is no retention, nothing else would remove them.
    if target.retention is null then
        delete from pgq.job_archive as a
        where a.queue_id = target.queue_id;
    end if;
    perform pgq._forget_messages(array[target.partition_id], target.storage_class_id);
end
$$;

comment on function pgq.drop_queue(text) is
'Removes a queue with its jobs, leased and dead ones too.
Jobs that are enqueued at the same time go with it.
Errors: MQ002 unknown queue.';

-- ==== sql/queue/list_queues.sql

create function pgq.list_queues()
returns setof pgq.queue_info
language sql
stable
parallel safe
security definer
set search_path = pgq, pg_temp
as $$
select i.*
from pgq.queue as q
cross join lateral pgq._queue_info(q.queue) as i
order by q.queue
$$;

comment on function pgq.list_queues() is
'All queues and their settings, by name.';

-- ==== sql/queue/pause_queue.sql

create function pgq.pause_queue(queue text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    update pgq.queue as q
    set paused = true
    where q.queue = pause_queue.queue;

    if not found then
        perform pgq._fail_unknown_queue(pause_queue.queue);
    end if;
end
$$;

comment on function pgq.pause_queue(text) is
'Stops giving out jobs of a queue until resume_queue; a queue that is paused stays so.
Enqueueing goes on, and workers can still finish what they have.
Errors: MQ002 unknown queue.';

-- ==== sql/queue/resume_queue.sql

create function pgq.resume_queue(queue text)
returns void
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    update pgq.queue as q
    set paused = false
    where q.queue = resume_queue.queue;

    if not found then
        perform pgq._fail_unknown_queue(resume_queue.queue);
    end if;
end
$$;

comment on function pgq.resume_queue(text) is
'Gives out the jobs of a queue again after pause_queue; a queue that is not paused stays so.
Errors: MQ002 unknown queue.';

-- ==== sql/queue/purge_queue.sql

create function pgq.purge_queue(queue text, dead_only boolean default false)
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
    dead bigint;
    alive bigint := 0;
begin
    select q.queue_id
    into target_id
    from pgq.queue as q
    where q.queue = purge_queue.queue;

    if target_id is null then
        perform pgq._fail_unknown_queue(purge_queue.queue);
    end if;
    if purge_queue.dead_only is null then
        raise exception 'argument "dead_only" must not be null'
            using errcode = '22004';
    end if;

    -- Dead letters come last: a job that dies while this waits for its row is then among them.
    if not purge_queue.dead_only then
        delete from pgq.job as j
        where j.queue_id = target_id;
        get diagnostics alive = row_count;
    end if;

    delete from pgq.dead_job as d
    where d.queue_id = target_id;
    get diagnostics dead = row_count;

    return dead + alive;
end
$$;

comment on function pgq.purge_queue(text, boolean) is
'Removes every unfinished job of a queue, leased and dead ones too, and returns how many.
With dead_only just the dead letters. A worker that still has one of them gets false from ack.
Archived jobs stay.
Errors: MQ002 unknown queue, 22004 null argument.';

-- ==== sql/queue/_due_at.sql

create function pgq._due_at(
    queue text,
    moment timestamptz,
    delay interval,
    run_at timestamptz,
    retention interval
)
returns timestamptz
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    due_at timestamptz;
begin
    if _due_at.delay is not null and _due_at.run_at is not null then
        raise exception 'give either delay or run_at, not both'
            using errcode = '22023';
    end if;
    if _due_at.delay is not null then
        perform pgq._check_interval('delay', _due_at.delay, true);
    end if;
    if not isfinite(_due_at.run_at) then
        raise exception 'argument "run_at" must be finite'
            using errcode = '22023';
    end if;

    due_at := greatest(_due_at.moment, coalesce(_due_at.run_at, _due_at.moment + _due_at.delay));
    if due_at >= _due_at.moment + _due_at.retention then
        raise exception 'the job would expire before it is due'
            using errcode = '22023',
                detail = format(
                    'The retention of queue "%s" is %s.', _due_at.queue, _due_at.retention
                );
    end if;
    return due_at;
end
$$;

comment on function pgq._due_at(text, timestamptz, interval, timestamptz, interval) is
'When a job with a delay or a time of its own may be claimed first; refuses what makes no sense
(22023).';

-- ==== sql/queue/enqueue.sql

create function pgq.enqueue(
    queue text,
    payload jsonb default null,
    body bytea default null,
    delay interval default null,
    priority integer default 0,
    label text default null,
    headers jsonb default null,
    key text default null,
    run_at timestamptz default null
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
    store_id bigint;
    leaf integer;
    queue_delay interval;
    retention interval;
    notify boolean;
    moment timestamptz;
    visible_at timestamptz;
    job_id bigint;
begin
    if (enqueue.payload is null) = (enqueue.body is null)
        or enqueue.headers is not null
        or (enqueue.priority between 0 and 9) is not true
        or length(enqueue.label) > 255
    then
        perform pgq._check_content(enqueue.payload, enqueue.body, enqueue.headers);
        perform pgq._check_count('priority', enqueue.priority, 0, 9);
        perform pgq._check_label(enqueue.label);
    end if;

    -- The transaction id first, then the segment and the clock: cleanup and the floor rely on it.
    -- They wait for every transaction that was running when a segment was sealed, or a floor
    -- proposed.
    if pg_current_xact_id() is null then
        return null;
    end if;

    select q.queue_id, q.partition_id, q.segment, q.delay, q.retention, q.notify
    into target_id, store_id, leaf, queue_delay, retention, notify
    from pgq.queue as q
    where q.queue = enqueue.queue;

    moment := pgq._clock();
    if target_id is null
        or enqueue.delay is not null
        or enqueue.run_at is not null
        or current_setting('transaction_isolation') in ('repeatable read', 'serializable')
    then
        if target_id is null then
            perform pgq._fail_unknown_queue(enqueue.queue);
        end if;

        -- An old snapshot may name a segment that is gone; the lock then raises 40001.
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            perform
            from pgq.queue as q
            where q.queue = enqueue.queue
            for share;
        end if;

        if enqueue.delay is not null or enqueue.run_at is not null then
            visible_at := pgq._due_at(
                enqueue.queue, moment, enqueue.delay, enqueue.run_at, retention
            );
        end if;
    end if;

    job_id := nextval('pgq.job_id');

    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    values (
        store_id,
        job_id,
        moment,
        leaf,
        enqueue.key,
        enqueue.headers,
        enqueue.payload,
        enqueue.body
    );

    insert into pgq.job (
        job_id, queue_id, expires_at, segment, priority, attempt, visible_at, label
    )
    values (
        job_id,
        target_id,
        moment + retention,
        leaf,
        enqueue.priority,
        0,
        coalesce(visible_at, moment + queue_delay),
        enqueue.label
    );

    if notify then
        perform pg_notify('pgq_queue', enqueue.queue);
    end if;

    return job_id;
end
$$;

comment on function pgq.enqueue(
    text, jsonb, bytea, interval, integer, text, jsonb, text, timestamptz
) is
'Adds a job to a queue and returns its id.
Pass payload (JSON) or body (raw bytes), not both. The job may be claimed once this transaction
has committed and its time has come: after delay, at run_at, or after the delay of the queue. Jobs
of a lower priority number (0 to 9) go first, then those that are due longer. label can be asked
for by claims; headers (a JSON object) and key travel with the job.
Errors: MQ002 unknown queue, 22004 no content, 22023 bad argument, or the job would expire before
it is due.';

-- ==== sql/queue/enqueue_batch.sql

create function pgq.enqueue_batch(
    queue text,
    payloads jsonb[] default null,
    bodies bytea[] default null,
    delay interval default null,
    priority integer default 0,
    labels text[] default null,
    headers jsonb[] default null,
    keys text[] default null,
    run_at timestamptz default null
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
declare
    target_id bigint;
    store_id bigint;
    leaf integer;
    queue_delay interval;
    retention interval;
    notify boolean;
    moment timestamptz;
    visible_at timestamptz;
    size integer;
begin
    size := pgq._check_batch(
        enqueue_batch.payloads,
        enqueue_batch.bodies,
        enqueue_batch.keys,
        enqueue_batch.headers,
        enqueue_batch.labels
    );
    if enqueue_batch.labels is not null then
        perform pgq._check_label(l.label)
        from unnest(enqueue_batch.labels) as l (label);
    end if;
    if (enqueue_batch.priority between 0 and 9) is not true then
        perform pgq._check_count('priority', enqueue_batch.priority, 0, 9);
    end if;

    -- The transaction id first, then the segment and the clock: cleanup and the floor rely on it.
    -- They wait for every transaction that was running when a segment was sealed, or a floor
    -- proposed.
    if pg_current_xact_id() is null then
        return;
    end if;

    select q.queue_id, q.partition_id, q.segment, q.delay, q.retention, q.notify
    into target_id, store_id, leaf, queue_delay, retention, notify
    from pgq.queue as q
    where q.queue = enqueue_batch.queue;

    if target_id is null then
        perform pgq._fail_unknown_queue(enqueue_batch.queue);
    end if;

    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        -- An old snapshot may name a segment that is gone; the lock then raises 40001.
        perform
        from pgq.queue as q
        where q.queue = enqueue_batch.queue
        for share;
    end if;

    moment := pgq._clock();
    if enqueue_batch.delay is null and enqueue_batch.run_at is null then
        visible_at := moment + queue_delay;
    else
        visible_at := pgq._due_at(
            enqueue_batch.queue, moment, enqueue_batch.delay, enqueue_batch.run_at, retention
        );
    end if;

    if size = 0 then
        return;
    end if;

    return query
    with arrival as materialized (
        select
            nextval('pgq.job_id') as job_id,
            b.*
        from (
            select
                generate_series(1, size) as place,
                unnest(enqueue_batch.keys) as key,
                unnest(enqueue_batch.labels) as label,
                unnest(enqueue_batch.headers) as header,
                unnest(enqueue_batch.payloads) as payload,
                unnest(enqueue_batch.bodies) as body
        ) as b
    ),

    stored as (
        insert into pgq.message (
            partition_id, log_offset, published_at, segment, key, headers, payload, body
        )
        select store_id, a.job_id, moment, leaf, a.key, a.header, a.payload, a.body
        from arrival as a
    ),

    added as (
        insert into pgq.job (
            job_id, queue_id, expires_at, segment, priority, attempt, visible_at, label
        )
        select
            a.job_id,
            target_id,
            moment + retention,
            leaf,
            enqueue_batch.priority,
            0,
            visible_at,
            a.label
        from arrival as a
    )

    select a.job_id
    from arrival as a
    order by a.place;

    if notify then
        perform pg_notify('pgq_queue', enqueue_batch.queue);
    end if;
end
$$;

comment on function pgq.enqueue_batch(
    text, jsonb[], bytea[], interval, integer, text[], jsonb[], text[], timestamptz
) is
'Adds jobs to a queue, all or none, and returns their ids, in the order of the array.
Pass payloads (JSON) or bodies (raw bytes), not both; labels, headers and keys are optional and of
the same length; delay, priority and run_at are those of all. An empty array adds nothing.
Errors: MQ002 unknown queue, 22004 no content or a null in it, 22023 bad argument, arrays of other
lengths, or the jobs would expire before they are due.';

-- ==== sql/queue/_bury.sql

create function pgq._bury(job_ids bigint[], attempts integer, error text)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    with gone as (
        delete from pgq.job as j
        where j.job_id = any(_bury.job_ids)
        returning j.*
    )

    insert into pgq.dead_job (
        job_id, queue_id, segment, priority, attempt, died_at, label, last_error
    )
    select
        g.job_id,
        g.queue_id,
        g.segment,
        g.priority,
        least(g.attempt, _bury.attempts),
        pgq._clock(),
        g.label,
        coalesce(_bury.error, g.last_error)
    from gone as g;
end
$$;

comment on function pgq._bury(bigint[], integer, text) is
'Moves jobs, whose rows the caller has locked, to the dead ones.';

-- ==== sql/queue/_raise_floor.sql

create function pgq._raise_floor(queue_id bigint, moment timestamptz)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    state pgq.queue_floor;
    snapshot pg_snapshot;
    -- When this transaction began: whoever had read the clock by then had an id, and a lower one
    -- than this transaction. An id of the snapshot would not do: those at work may have higher ones
    -- than the latest that has ended.
    begun_at timestamptz := _raise_floor.moment - (clock_timestamp() - now());
begin
    -- Another claim is at it, or this session's snapshot is older than the newest row: leave it be.
    perform 1
    from pgq.queue_floor_lock as l
    where l.queue_id = _raise_floor.queue_id
    for no key update skip locked;
    if not found
        or current_setting('transaction_isolation') in ('repeatable read', 'serializable')
    then
        return;
    end if;

    -- A new statement: its snapshot is younger than the lock.
    select f.*
    into state
    from pgq.queue_floor as f
    where f.queue_id = _raise_floor.queue_id
    order by f.seq desc
    limit 1;
    snapshot := pg_current_snapshot();

    if state.recorded_at > _raise_floor.moment then
        if state.recorded_at <= pgq._clock() then
            -- A claim that began later was here first.
            return;
        end if;
        -- The clock was set back. Begin anew: jobs may have been written below the floors.
        state.floor_times := array_fill('-infinity'::timestamptz, array[10]);
        state.floor_ids := array_fill(0::bigint, array[10]);
        state.safe_at := '-infinity';
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

    -- The floor rises to the first job that can still be delivered, or else to where it is safe;
    -- not looking further, for there stand the leases of finished jobs.
    select
        array_agg(
            case
                when f.floor_time >= state.safe_at then f.floor_time
                else coalesce(j.visible_at, state.safe_at)
            end
            order by f.place
        ),
        array_agg(
            case
                when f.floor_time >= state.safe_at then f.floor_id
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
    ) as j on true;

    insert into pgq.queue_floor (
        queue_id, seq, floor_times, floor_ids, recorded_at, safe_at, candidate_at, candidate_xid
    )
    values (
        _raise_floor.queue_id,
        state.seq + 1,
        state.floor_times,
        state.floor_ids,
        _raise_floor.moment,
        state.safe_at,
        state.candidate_at,
        state.candidate_xid
    );

    -- One row goes for each that comes, found by its number, so no dead rows are walked.
    delete from pgq.queue_floor as f
    where f.queue_id = _raise_floor.queue_id
        and f.seq = state.seq - 63;
end
$$;

comment on function pgq._raise_floor(bigint, timestamptz) is
'Raises the floors of a queue as far as is proved safe.';

-- ==== sql/queue/claim_job.sql

create function pgq.claim_job(
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
set jit = off
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    target_id bigint;
    store_id bigint;
    queue_lease interval;
    max_attempts integer;
    paused boolean;
    floor_times timestamptz[];
    floor_ids bigint[];
    recorded_at timestamptz;
    moment timestamptz;
    token uuid;
    leased pgq._leased_job[];
    lone pgq._leased_job;
    top_attempt integer;
    first_leaf integer;
    last_leaf integer;
begin
    if (claim_job.max_jobs between 1 and 100000) is not true then
        perform pgq._check_count('max_jobs', claim_job.max_jobs, 1, 100000);
    end if;
    if claim_job.lease is not null then
        perform pgq._check_interval('lease', claim_job.lease, false);
    end if;

    select
        q.queue_id,
        q.partition_id,
        q.lease,
        q.max_attempts,
        q.paused,
        f.floor_times,
        f.floor_ids,
        f.recorded_at
    into
        target_id,
        store_id,
        queue_lease,
        max_attempts,
        paused,
        floor_times,
        floor_ids,
        recorded_at
    from pgq.queue as q
    cross join lateral (
        select g.floor_times, g.floor_ids, g.recorded_at
        from pgq.queue_floor as g
        where g.queue_id = q.queue_id
        order by g.seq desc
        limit 1
    ) as f
    where q.queue = claim_job.queue;

    if target_id is null then
        perform pgq._fail_unknown_queue(claim_job.queue);
    end if;
    if paused then
        return;
    end if;

    token := gen_random_uuid();
    moment := pgq._clock();

    if claim_job.max_jobs = 1 and claim_job.label is null then
        -- What follows below for many, without arrays: for one job that takes less time.
        with picked as materialized (
            select j.job_id, j.visible_at
            from unnest(floor_times, floor_ids) with ordinality
                as f (floor_time, floor_id, place)
            cross join lateral (
                select k.job_id, k.visible_at
                from pgq.job as k
                where k.queue_id = target_id
                    and k.priority = f.place - 1
                    and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                    and k.visible_at <= moment
                    and (k.expires_at is null or k.expires_at > moment)
                order by k.visible_at, k.job_id
                limit 1
                for update skip locked
            ) as j
            limit 1
        )

        update pgq.job as j
        set
            attempt = j.attempt + 1,
            visible_at = pgq._clock() + coalesce(claim_job.lease, queue_lease),
            lease_token = token
        from picked as p
        where j.job_id = p.job_id
        returning
            j.job_id, j.attempt, j.visible_at, j.priority, j.label, p.visible_at, j.segment
        into lone;

        if lone.attempt <= max_attempts or max_attempts is null and lone.attempt is not null then
            if recorded_at not between moment - interval '20 milliseconds' and moment then
                perform pgq._raise_floor(target_id, moment);
            end if;

            return query
            select
                lone.job_id,
                token,
                lone.attempt,
                lone.leased_until,
                m.published_at,
                lone.priority::integer,
                m.key,
                lone.label,
                m.headers,
                m.payload,
                m.body
            from pgq.message as m
            where m.segment = lone.segment
                and m.partition_id = store_id
                and m.log_offset = lone.job_id;
            return;
        end if;

        if lone.attempt > max_attempts then
            perform pgq._bury(
                array[lone.job_id], max_attempts, 'the lease of the last attempt ran out'
            );
        end if;
    end if;

    loop
        exit when lone.job_id is null and claim_job.max_jobs = 1 and claim_job.label is null;

        -- One row per priority, the first one first. The limits stop the scan, and so the locking,
        -- as soon as there are enough. visible_at is set by a clock that is read behind the lock:
        -- by then this transaction has its id, on which the floor relies.
        if claim_job.label is null then
            with picked as materialized (
                select j.job_id, j.visible_at
                from unnest(floor_times, floor_ids) with ordinality
                    as f (floor_time, floor_id, place)
                cross join lateral (
                    select k.job_id, k.visible_at
                    from pgq.job as k
                    where k.queue_id = target_id
                        and k.priority = f.place - 1
                        and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                        and k.visible_at <= moment
                        and (k.expires_at is null or k.expires_at > moment)
                    order by k.visible_at, k.job_id
                    limit claim_job.max_jobs
                    for update skip locked
                ) as j
                limit claim_job.max_jobs
            ),

            taken as (
                update pgq.job as j
                set
                    attempt = j.attempt + 1,
                    visible_at = pgq._clock() + coalesce(claim_job.lease, queue_lease),
                    lease_token = token
                from picked as p
                where j.job_id = p.job_id
                returning
                    j.job_id,
                    j.attempt,
                    j.visible_at as leased_until,
                    j.priority,
                    j.label,
                    p.visible_at as due_at,
                    j.segment
            )

            select
                array_agg(row(t.*)::pgq._leased_job),
                max(t.attempt),
                min(t.segment),
                max(t.segment)
            into leased, top_attempt, first_leaf, last_leaf
            from taken as t;
        else
            -- The same by the index on the label; no other index knows the negative id.
            with picked as materialized (
                select j.job_id, j.visible_at
                from unnest(floor_times, floor_ids) with ordinality
                    as f (floor_time, floor_id, place)
                cross join lateral (
                    select k.job_id, k.visible_at
                    from pgq.job as k
                    where -k.queue_id = -target_id
                        and k.priority = f.place - 1
                        and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
                        and k.visible_at <= moment
                        and (k.expires_at is null or k.expires_at > moment)
                        and k.label = claim_job.label
                    order by k.visible_at, k.job_id
                    limit claim_job.max_jobs
                    for update skip locked
                ) as j
                limit claim_job.max_jobs
            ),

            taken as (
                update pgq.job as j
                set
                    attempt = j.attempt + 1,
                    visible_at = pgq._clock() + coalesce(claim_job.lease, queue_lease),
                    lease_token = token
                from picked as p
                where j.job_id = p.job_id
                returning
                    j.job_id,
                    j.attempt,
                    j.visible_at as leased_until,
                    j.priority,
                    j.label,
                    p.visible_at as due_at,
                    j.segment
            )

            select
                array_agg(row(t.*)::pgq._leased_job),
                max(t.attempt),
                min(t.segment),
                max(t.segment)
            into leased, top_attempt, first_leaf, last_leaf
            from taken as t;
        end if;

        exit when leased is null or max_attempts is null or top_attempt <= max_attempts;

        -- Jobs whose last worker was lost: they have had their attempts.
        perform pgq._bury(
            array(select l.job_id from unnest(leased) as l where l.attempt > max_attempts),
            max_attempts,
            'the lease of the last attempt ran out'
        );
        leased := array(select l from unnest(leased) as l where l.attempt <= max_attempts);
        exit when cardinality(leased) > 0;
    end loop;

    -- Now and then, and less often when there is nothing to do.
    if recorded_at < moment - interval '20 milliseconds'
        and (leased is not null or recorded_at < moment - interval '5 seconds')
        or recorded_at > moment
    then
        perform pgq._raise_floor(target_id, moment);
    end if;

    if leased is null then
        return;
    end if;

    -- Usually the payloads stand in one segment, and a plain parameter leads to it at once.
    if first_leaf = last_leaf then
        return query
        select
            l.job_id,
            token,
            l.attempt,
            l.leased_until,
            m.published_at,
            l.priority::integer,
            m.key,
            l.label,
            m.headers,
            m.payload,
            m.body
        from unnest(leased) as l
        left join lateral (
            select n.*
            from pgq.message as n
            where n.segment = first_leaf
                and n.partition_id = store_id
                and n.log_offset = l.job_id
            limit 1
        ) as m on true
        order by l.priority, l.due_at, l.job_id;
    else
        return query
        select
            l.job_id,
            token,
            l.attempt,
            l.leased_until,
            m.published_at,
            l.priority::integer,
            m.key,
            l.label,
            m.headers,
            m.payload,
            m.body
        from unnest(leased) as l
        left join lateral (
            select n.*
            from pgq.message as n
            where n.segment = l.segment
                and n.partition_id = store_id
                and n.log_offset = l.job_id
            limit 1
        ) as m on true
        order by l.priority, l.due_at, l.job_id;
    end if;
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
queue is paused.
Errors: MQ002 unknown queue, 22004 and 22023 bad arguments.';

-- ==== sql/queue/_finish.sql

create function pgq._finish(
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
begin
    return query
    with finished as (
        delete from pgq.job as j
        where j.job_id = any(_finish.job_ids)
            and j.lease_token = _finish.lease_token
        returning j.*
    ),

    archived as (
        insert into pgq.job_archive (
            job_id, queue_id, ended_at, segment, attempt, outcome, label, result, last_error
        )
        select
            f.job_id,
            f.queue_id,
            pgq._clock(),
            f.segment,
            f.attempt,
            _finish.outcome,
            f.label,
            _finish.result,
            f.last_error
        from finished as f
        inner join pgq.queue as q on q.queue_id = f.queue_id
        where q.archive or _finish.always
    )

    select f.job_id
    from finished as f;
end
$$;

comment on function pgq._finish(bigint[], uuid, text, jsonb, boolean) is
'Ends jobs whose lease token is current, archives them where asked, and returns the ids of those it
ended.';

-- ==== sql/queue/ack.sql

create function pgq.ack(job_id bigint, lease_token uuid)
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
    finished pgq.job;
begin
    if ack.job_id is null or ack.lease_token is null then
        perform pgq._check_lease(ack.job_id, ack.lease_token);
    end if;

    -- What _finish does for many, in two plain statements: for one job they take less time.
    delete from pgq.job as j
    where j.job_id = ack.job_id
        and j.lease_token = ack.lease_token
    returning j.*
    into finished;

    if finished.job_id is null then
        return false;
    end if;

    insert into pgq.job_archive (
        job_id, queue_id, ended_at, segment, attempt, outcome, label, last_error
    )
    select
        finished.job_id,
        finished.queue_id,
        pgq._clock(),
        finished.segment,
        finished.attempt,
        'acked',
        finished.label,
        finished.last_error
    from pgq.queue as q
    where q.queue_id = finished.queue_id
        and q.archive;

    return true;
end
$$;

comment on function pgq.ack(bigint, uuid) is
'Finishes a job and says whether it did.
The queue notes it among the archived jobs, unless its archive setting is off. False, and nothing
changed: the token is not that of the latest claim, or the job is finished already. A lease that
has run out still counts as long as no other worker got the job.
Errors: 22004 null argument.';

-- ==== sql/queue/ack_batch.sql

create function pgq.ack_batch(job_ids bigint[], lease_token uuid)
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
    perform pgq._check_leases(ack_batch.job_ids, ack_batch.lease_token);

    return query
    select f
    from pgq._finish(ack_batch.job_ids, ack_batch.lease_token, 'acked', null, false) as f;
end
$$;

comment on function pgq.ack_batch(bigint[], uuid) is
'Finishes jobs of one claim and returns the ids of those that it finished; see ack.
An id that is missing in the answer was not this worker''s any more.
Errors: 22004 null argument.';

-- ==== sql/queue/archive_job.sql

create function pgq.archive_job(
    job_id bigint,
    lease_token uuid,
    outcome text default 'archived',
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
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    perform pgq._check_lease(archive_job.job_id, archive_job.lease_token);
    perform pgq._check_outcome(archive_job.outcome);

    return exists (
        select
        from pgq._finish(
            array[archive_job.job_id],
            archive_job.lease_token,
            archive_job.outcome,
            archive_job.result,
            true
        )
    );
end
$$;

comment on function pgq.archive_job(bigint, uuid, text, jsonb) is
'Finishes a job, notes it among the archived jobs with an outcome, and says whether it did.
It is noted whatever the archive setting of the queue. outcome: 1 to 63 characters; result: any
JSON. False, and nothing changed: the token is not that of the latest claim, or the job is finished
already.
Errors: 22004 null argument, 22023 bad outcome.';

-- ==== sql/queue/archive_job_batch.sql

create function pgq.archive_job_batch(
    job_ids bigint[],
    lease_token uuid,
    outcome text default 'archived',
    result jsonb default null
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
    perform pgq._check_leases(archive_job_batch.job_ids, archive_job_batch.lease_token);
    perform pgq._check_outcome(archive_job_batch.outcome);

    return query
    select f
    from pgq._finish(
        archive_job_batch.job_ids,
        archive_job_batch.lease_token,
        archive_job_batch.outcome,
        archive_job_batch.result,
        true
    ) as f;
end
$$;

comment on function pgq.archive_job_batch(bigint[], uuid, text, jsonb) is
'Finishes jobs of one claim, all with one outcome and result, and returns the ids of those finished.
See archive_job.
Errors: 22004 null argument, 22023 bad outcome.';

-- ==== sql/queue/_retry_delay.sql

create function pgq._retry_delay(
    attempt integer,
    backoff interval,
    backoff_max interval,
    backoff_jitter double precision
)
returns interval
language sql
volatile
parallel safe
as $$
select make_interval(
    secs => least(
        date_part('epoch', _retry_delay.backoff) * power(2, least(_retry_delay.attempt - 1, 100)),
        date_part('epoch', _retry_delay.backoff_max)
    ) * (1 + random() * _retry_delay.backoff_jitter)
)
$$;

comment on function pgq._retry_delay(integer, interval, interval, double precision) is
'The delay before the retry that follows an attempt: doubling, with a cap and some jitter on top.';

-- ==== sql/queue/_nack.sql

create function pgq._nack(job_ids bigint[], lease_token uuid, delay interval, error text)
returns setof bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    returned bigint[];
    exhausted bigint[];
begin
    if _nack.delay is not null then
        perform pgq._check_interval('delay', _nack.delay, true);
    end if;

    -- The transaction id first, then the clock: the floor relies on it.
    if pg_current_xact_id() is null then
        return;
    end if;

    -- Not joined with the queue: an old plan might walk all its jobs.
    with given_back as (
        update pgq.job as j
        set
            visible_at = pgq._clock() + coalesce(
                _nack.delay,
                (
                    select
                        pgq._retry_delay(
                            j.attempt, q.backoff, q.backoff_max, q.backoff_jitter
                        )
                    from pgq.queue as q
                    where q.queue_id = j.queue_id
                ),
                interval '0'
            ),
            lease_token = null,
            last_error = coalesce(_nack.error, j.last_error)
        where j.job_id = any(_nack.job_ids)
            and j.lease_token = _nack.lease_token
        returning
            j.job_id,
            j.attempt >= (
                select q.max_attempts from pgq.queue as q where q.queue_id = j.queue_id
            ) as exhausted
    )

    select array_agg(g.job_id), array_agg(g.job_id) filter (where g.exhausted)
    into returned, exhausted
    from given_back as g;

    if exhausted is not null then
        perform pgq._bury(exhausted, null, null);
    end if;

    return query
    select unnest(returned);
end
$$;

comment on function pgq._nack(bigint[], uuid, interval, text) is
'Gives jobs whose lease token is current back to their queue, or to the dead ones when their
attempts are used up, and returns their ids.';

-- ==== sql/queue/nack.sql

create function pgq.nack(
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
        from pgq._nack(array[nack.job_id], nack.lease_token, nack.delay, nack.error)
    );
end
$$;

comment on function pgq.nack(bigint, uuid, interval, text) is
'Gives a job back to be tried again, and says whether it did.
delay: when it may be claimed again, 0 = at once; by default the backoff of the queue: its first
delay, doubled with every attempt, up to its cap, with some jitter. error: what went wrong; the
last one is kept with the job. A job that has had its max_attempts becomes a dead letter. False,
and nothing changed: the token is not that of the latest claim, or the job is finished already.
Errors: 22004 null argument, 22023 bad delay.';

-- ==== sql/queue/nack_batch.sql

create function pgq.nack_batch(
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
        nack_batch.job_ids, nack_batch.lease_token, nack_batch.delay, nack_batch.error
    ) as n;
end
$$;

comment on function pgq.nack_batch(bigint[], uuid, interval, text) is
'Gives jobs of one claim back to be tried again, and returns the ids of those given back.
See nack.
Errors: 22004 null argument, 22023 bad delay.';

-- ==== sql/queue/_extend_lease.sql

create function pgq._extend_lease(job_ids bigint[], lease_token uuid, lease interval)
returns setof bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if _extend_lease.lease is not null then
        perform pgq._check_interval('lease', _extend_lease.lease, false);
    end if;

    -- The transaction id first, then the clock: the floor relies on it.
    if pg_current_xact_id() is null then
        return;
    end if;

    -- Not joined with the queue: an old plan might walk all its jobs.
    return query
    update pgq.job as j
    set
        visible_at = pgq._clock() + coalesce(
            _extend_lease.lease,
            (select q.lease from pgq.queue as q where q.queue_id = j.queue_id),
            interval '0'
        )
    where j.job_id = any(_extend_lease.job_ids)
        and j.lease_token = _extend_lease.lease_token
        and j.visible_at > pgq._clock()
    returning j.job_id;
end
$$;

comment on function pgq._extend_lease(bigint[], uuid, interval) is
'Extends the leases that are current and have not run out, and returns the ids of these jobs.';

-- ==== sql/queue/extend_lease.sql

create function pgq.extend_lease(job_id bigint, lease_token uuid, lease interval default null)
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
    perform pgq._check_lease(extend_lease.job_id, extend_lease.lease_token);

    return exists (
        select
        from pgq._extend_lease(
            array[extend_lease.job_id], extend_lease.lease_token, extend_lease.lease
        )
    );
end
$$;

comment on function pgq.extend_lease(bigint, uuid, interval) is
'Keeps a claimed job for the given time from now, and says whether it did.
lease: by default that of the queue. False: the lease has run out or was never the caller''s, or
the job is finished; stop working on it.
Errors: 22004 null argument, 22023 bad lease.';

-- ==== sql/queue/extend_lease_batch.sql

create function pgq.extend_lease_batch(
    job_ids bigint[],
    lease_token uuid,
    lease interval default null
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
    perform pgq._check_leases(extend_lease_batch.job_ids, extend_lease_batch.lease_token);

    return query
    select e
    from pgq._extend_lease(
        extend_lease_batch.job_ids, extend_lease_batch.lease_token, extend_lease_batch.lease
    ) as e;
end
$$;

comment on function pgq.extend_lease_batch(bigint[], uuid, interval) is
'Keeps jobs of one claim for the given time from now, and returns the ids of those kept.
See extend_lease.
Errors: 22004 null argument, 22023 bad lease.';

-- ==== sql/queue/redrive.sql

create function pgq.redrive(queue text, job_id bigint default null)
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
    redriven bigint;
begin
    -- The transaction id first, then the clock: the floor relies on it.
    if pg_current_xact_id() is null then
        return null;
    end if;

    select q.*
    into target
    from pgq.queue as q
    where q.queue = redrive.queue;

    if target.queue_id is null then
        perform pgq._fail_unknown_queue(redrive.queue);
    end if;

    with revived as (
        delete from pgq.dead_job as d
        where d.queue_id = target.queue_id
            and d.job_id = coalesce(redrive.job_id, d.job_id)
        returning d.*
    )

    insert into pgq.job (
        job_id, queue_id, expires_at, segment, priority, attempt, visible_at, label, last_error
    )
    select
        r.job_id,
        r.queue_id,
        pgq._clock() + target.retention,
        r.segment,
        r.priority,
        0,
        pgq._clock(),
        r.label,
        r.last_error
    from revived as r;
    get diagnostics redriven = row_count;

    return redriven;
end
$$;

comment on function pgq.redrive(text, bigint) is
'Puts dead letters back into their queue and returns how many.
It is one job, or without job_id all of the queue. They are due at once, with all their attempts
before them and the whole retention from now on. 0: the job is not a dead letter of this queue.
Errors: MQ002 unknown queue.';

-- ==== sql/bulk/_fail_write_lost.sql

create function pgq._fail_write_lost(write_id uuid, reason text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _fail_write_lost.write_id is null then
        raise exception 'argument "write_id" must not be null'
            using errcode = '22004';
    end if;
    raise exception 'bulk write % cannot go on', _fail_write_lost.write_id
        using errcode = 'MQ008',
            detail = _fail_write_lost.reason,
            hint = 'Begin the write anew with pgq.begin_write; with the same producer and seq '
                'nothing is written twice.';
end
$$;

comment on function pgq._fail_write_lost(uuid, text) is
'Raises MQ008.';

-- ==== sql/bulk/_unpack.sql

create function pgq._unpack(packed bytea, lengths integer[])
returns bytea[]
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    -- Joined with nothing it is read from storage once, not for every piece.
    whole bytea := _unpack.packed || ''::bytea;
    pieces bytea[] := array_fill(null::bytea, array[cardinality(_unpack.lengths)]);
    piece_length integer;
    number integer := 1;
    place integer := 1;
begin
    foreach piece_length in array _unpack.lengths loop
        if (piece_length >= 0) is not true then
            raise exception 'a batch must not contain null'
                using errcode = '22004',
                    detail = format(
                        'Message %s of %s is null or has a negative length; nothing was stored.',
                        number, cardinality(_unpack.lengths)
                    );
        end if;
        pieces[number] := substring(whole from place for piece_length);
        place := place + piece_length;
        number := number + 1;
    end loop;

    if place - 1 <> length(whole) then
        raise exception 'the lengths of a chunk do not add up to its size'
            using errcode = '22023',
                detail = format('Lengths: %s bytes; chunk: %s bytes.', place - 1, length(whole));
    end if;
    return pieces;
end
$$;

comment on function pgq._unpack(bytea, integer[]) is
'The contents of a chunk, one by one; refuses lengths that are null, negative or do not fit.';

-- ==== sql/bulk/_forget_staged.sql

create function pgq._forget_staged(write_id uuid)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    delete from pgq.staged_write as w
    where w.write_id = _forget_staged.write_id;

    delete from pgq.staged_chunk as c
    where c.write_id = _forget_staged.write_id;

    delete from pgq.staged_task as k
    where k.write_id = _forget_staged.write_id;
end
$$;

comment on function pgq._forget_staged(uuid) is
'Removes what was staged for a bulk write.';

-- ==== sql/bulk/_write_messages.sql

create function pgq._write_messages(
    topic text,
    queue text,
    payloads jsonb[],
    bodies bytea[],
    keys text[],
    headers jsonb[],
    labels text[],
    partition integer,
    priority integer,
    delay interval
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if _write_messages.topic is not null then
        perform pgq.publish_batch(
            _write_messages.topic,
            _write_messages.payloads,
            _write_messages.bodies,
            _write_messages.keys,
            _write_messages.headers,
            _write_messages.partition
        );
    else
        perform pgq.enqueue_batch(
            _write_messages.queue,
            _write_messages.payloads,
            _write_messages.bodies,
            _write_messages.delay,
            coalesce(_write_messages.priority, 0),
            _write_messages.labels,
            _write_messages.headers,
            _write_messages.keys
        );
    end if;
end
$$;

comment on function pgq._write_messages(
    text, text, jsonb[], bytea[], text[], jsonb[], text[], integer, integer, interval
) is
'Publishes or enqueues the messages of a chunk.';

-- ==== sql/bulk/_check_packed.sql

create function pgq._check_packed(
    packed bytea,
    starts integer[],
    lengths integer[],
    keys text[],
    headers jsonb[]
)
returns integer
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    size integer := cardinality(_check_packed.lengths);
    whole bigint;
    shortest integer;
begin
    select coalesce(sum(l.length), 0), min(l.length)
    into whole, shortest
    from unnest(_check_packed.lengths) as l (length);

    if array_position(_check_packed.lengths, null) is not null
        or array_position(_check_packed.starts, null) is not null
        or shortest < 0
    then
        raise exception 'a batch must not contain null'
            using errcode = '22004',
                detail = 'A length or start is null or negative; nothing was stored.';
    end if;
    if whole <> length(_check_packed.packed)
        or cardinality(_check_packed.starts) <> size
        or _check_packed.starts[1] <> 1
        or _check_packed.starts[size] + _check_packed.lengths[size] - 1 <> whole
    then
        raise exception 'the lengths of a chunk do not add up to its size'
            using errcode = '22023',
                detail = format(
                    'Lengths: %s bytes; chunk: %s bytes.', whole, length(_check_packed.packed)
                );
    end if;
    if cardinality(_check_packed.keys) <> size or cardinality(_check_packed.headers) <> size then
        raise exception 'the arrays of a batch must have the same length'
            using errcode = '22023';
    end if;
    if _check_packed.headers is not null
        and exists (
            select from unnest(_check_packed.headers) as h (header)
            where jsonb_typeof(h.header) <> 'object'
        )
    then
        raise exception 'headers must be JSON objects'
            using errcode = '22023';
    end if;
    return size;
end
$$;

comment on function pgq._check_packed(bytea, integer[], integer[], text[], jsonb[]) is
'The number of messages of a chunk that is stored as it is; refuses what does not add up.';

-- ==== sql/bulk/_publish_packed.sql

create function pgq._publish_packed(
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
    tip_offset bigint;
    tip_published_at timestamptz;
begin
    -- As publish_batch does it, but that the contents are cut out while they are stored.
    state := pgq._lock_partition(_publish_packed.topic, _publish_packed.partition, null);

    -- A new statement: its snapshot is younger than the lock, so it sees the newest offset.
    select m.log_offset, m.published_at
    into tip_offset, tip_published_at
    from pgq.message as m
    where m.segment = state.segment
        and m.partition_id = state.partition_id
        and m.log_offset >= state.segment_first_offset
    order by m.log_offset desc
    limit 1;

    tip_offset := coalesce(tip_offset, state.segment_first_offset - 1);
    tip_published_at := greatest(pgq._clock(), tip_published_at, state.segment_entered_at);

    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    select
        state.partition_id,
        b.log_offset,
        tip_published_at,
        state.segment,
        b.key,
        b.header,
        null,
        substring(whole from b.start for b.length)
    from (
        select
            generate_series(tip_offset + 1, tip_offset + size) as log_offset,
            unnest(_publish_packed.starts) as start,
            unnest(_publish_packed.lengths) as length,
            unnest(_publish_packed.keys) as key,
            unnest(_publish_packed.headers) as header
    ) as b;

    if state.notify and size > 0 then
        perform pg_notify('pgq_topic', _publish_packed.topic);
    end if;
end
$$;

comment on function pgq._publish_packed(
    text, bytea, integer[], integer[], text[], jsonb[], integer
) is
'Publishes the messages of a chunk, which _check_packed has checked, to one partition.';

-- ==== sql/bulk/begin_write.sql

create function pgq.begin_write(
    topic text default null,
    queue text default null,
    producer text default null,
    seq bigint default null,
    atomic boolean default true,
    timeout interval default '1 day'
)
returns pgq.bulk_write_state
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
    target_topic_id bigint;
    target_queue_id bigint;
    known pgq.bulk_write;
    moment timestamptz;
begin
    if (begin_write.topic is null) = (begin_write.queue is null) then
        raise exception 'a bulk write goes either to a topic or to a queue'
            using errcode = case when begin_write.topic is null then '22004' else '22023' end;
    end if;
    if (begin_write.producer is null) <> (begin_write.seq is null) then
        raise exception 'producer and seq go together'
            using errcode = '22023',
                hint = 'Pass both, to have a repeated write recognised, or neither.';
    end if;
    if length(begin_write.producer) not between 1 and 255 then
        raise exception 'argument "producer" must have 1 to 255 characters'
            using errcode = '22023';
    end if;
    if begin_write.atomic is null then
        raise exception 'argument "atomic" must not be null'
            using errcode = '22004';
    end if;
    perform pgq._check_interval('timeout', begin_write.timeout, false);

    if begin_write.topic is not null then
        select t.topic_id into target_topic_id
        from pgq.topic as t
        where t.topic = begin_write.topic;

        if target_topic_id is null then
            perform pgq._fail_unknown_topic(begin_write.topic);
        end if;
    else
        select q.queue_id into target_queue_id
        from pgq.queue as q
        where q.queue = begin_write.queue;

        if target_queue_id is null then
            perform pgq._fail_unknown_queue(begin_write.queue);
        end if;
    end if;

    moment := pgq._clock();
    loop
        select w.*
        into known
        from pgq.bulk_write as w
        where w.producer = begin_write.producer
            and coalesce(w.topic_id, 0) = coalesce(target_topic_id, 0)
            and coalesce(w.queue_id, 0) = coalesce(target_queue_id, 0)
            and w.seq = begin_write.seq
        for update;

        exit when known.bulk_write_id is not null;

        -- commit_write keeps the newest of a producer, so an older one may have been forgotten.
        if exists (
            select
            from pgq.bulk_write as w
            where w.producer = begin_write.producer
                and coalesce(w.topic_id, 0) = coalesce(target_topic_id, 0)
                and coalesce(w.queue_id, 0) = coalesce(target_queue_id, 0)
                and w.committed_at is not null
                and w.seq > begin_write.seq
            order by w.seq desc
            offset 999
        ) then
            raise exception 'write % of producer "%" is older than what is remembered',
                begin_write.seq, begin_write.producer
                using errcode = '22023',
                    detail = 'The newest 1000 writes of a producer are remembered, by seq.',
                    hint = 'Nobody can tell whether it was written before. If you know that it '
                        'was not, write it under another name of the producer.';
        end if;

        insert into pgq.bulk_write (
            topic_id, queue_id, producer, seq, atomic, write_id, begun_at, expires_at
        )
        values (
            target_topic_id,
            target_queue_id,
            begin_write.producer,
            begin_write.seq,
            begin_write.atomic,
            gen_random_uuid(),
            moment,
            moment + begin_write.timeout
        )
        on conflict do nothing
        returning *
        into known;

        if known.bulk_write_id is not null then
            insert into pgq.staged_write (write_id)
            select known.write_id
            where known.atomic;

            return row(known.write_id, null, null, false)::pgq.bulk_write_state;
        end if;
    end loop;

    if known.committed_at is not null then
        return row(known.write_id, known.messages, known.committed_at, true)::pgq.bulk_write_state;
    end if;

    if known.atomic <> begin_write.atomic then
        raise exception 'write % of producer "%" was begun in the other mode',
            begin_write.seq, begin_write.producer
            using errcode = '22023',
                detail = case when known.atomic then 'It is atomic.' else 'It is not atomic.' end,
                hint = 'Go on in the mode in which it was begun.';
    end if;

    -- Whoever still writes with the old id is refused from now on.
    perform pgq._forget_staged(known.write_id);
    update pgq.bulk_write as w
    set
        write_id = gen_random_uuid(),
        begun_at = moment,
        expires_at = moment + begin_write.timeout
    where w.bulk_write_id = known.bulk_write_id
    returning w.write_id
    into known.write_id;

    insert into pgq.staged_write (write_id)
    select known.write_id
    where known.atomic;

    return row(known.write_id, null, null, false)::pgq.bulk_write_state;
end
$$;

comment on function pgq.begin_write(text, text, text, bigint, boolean, interval) is
'Begins a write of many writers to a topic or a queue, and returns the id that they write with.
Commit it before they begin. They add chunks with write_chunk; commit_write ends it, abort_write
gives it up. An atomic write is staged, and seen all at once when it is committed; else each chunk
is published as it comes. With producer and seq it is known again: when it was committed before,
the result says so (repeated) and there is nothing to do; when it is still open it begins anew, the
writers of the earlier attempt are refused from then on, and chunks that were published already are
left out. The newest 1000 writes of a producer are remembered for each topic and queue. A write
that is not committed within the timeout is forgotten by cleanup; what chunks of it published stays,
and comes a second time when it is begun anew after that.
Errors: MQ001 unknown topic, MQ002 unknown queue, 22004 no topic or queue, or a null, 22023 both,
producer without seq, a seq older than what is remembered, or a write begun in the other mode,
40001 under REPEATABLE READ or SERIALIZABLE when another one was first.';

-- ==== sql/bulk/write_chunk.sql

create function pgq.write_chunk(
    write_id uuid,
    task integer,
    task_attempt text,
    chunk integer,
    packed bytea,
    lengths integer[],
    keys text[] default null,
    headers jsonb[] default null,
    labels text[] default null,
    partition integer default null,
    priority integer default null,
    delay interval default null,
    is_json boolean default false,
    last boolean default false,
    starts integer[] default null
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
    target record;
    owner_attempt text;
    content_digest bigint;
    contents bytea[];
    is_whole boolean;
    documents jsonb[];
    size integer;
    is_new boolean;
begin
    if num_nulls(
        write_chunk.task,
        write_chunk.task_attempt,
        write_chunk.chunk,
        write_chunk.packed,
        write_chunk.lengths,
        write_chunk.is_json,
        write_chunk.last
    ) > 0 then
        raise exception 'only keys, headers, labels, partition, priority and delay may be null'
            using errcode = '22004';
    end if;
    if least(write_chunk.task, write_chunk.chunk) < 0 then
        raise exception 'tasks and chunks are numbered from 0'
            using errcode = '22023';
    end if;

    select w.bulk_write_id, w.atomic, w.committed_at, s.write_id, t.topic, t.partitions, q.queue
    into target
    from pgq.bulk_write as w
    left join pgq.staged_write as s on s.write_id = w.write_id
    left join pgq.topic as t on t.topic_id = w.topic_id
    left join pgq.queue as q on q.queue_id = w.queue_id
    where w.write_id = write_chunk.write_id;

    if target.bulk_write_id is null
        or target.committed_at is not null
        or num_nonnulls(target.topic, target.queue) = 0
        or (target.atomic and target.write_id is null)
    then
        perform pgq._fail_write_lost(
            write_chunk.write_id,
            case
                when target.bulk_write_id is null
                    then 'It was never begun, was begun anew by others, aborted or forgotten.'
                when target.committed_at is not null
                    then 'It has been committed; this attempt to write comes too late.'
                when num_nonnulls(target.topic, target.queue) = 0
                    then 'Its topic or queue was dropped.'
                else 'The server crashed, and what was staged is gone.'
            end
        );
    end if;

    if target.topic is null and write_chunk.partition is not null
        or target.queue is null
        and num_nonnulls(write_chunk.labels, write_chunk.priority, write_chunk.delay) > 0
    then
        raise exception 'labels, priority and delay are for jobs, partition is for messages'
            using errcode = '22023';
    end if;
    if write_chunk.partition not between 0 and target.partitions - 1 then
        perform pgq._fail_unknown_partition(
            target.topic, write_chunk.partition, target.partitions
        );
    end if;

    if target.atomic then
        -- The first attempt of a task that commits is the one that counts. Another one waits here
        -- until that is decided.
        insert into pgq.staged_task (write_id, task, task_attempt)
        values (write_chunk.write_id, write_chunk.task, write_chunk.task_attempt)
        on conflict do nothing;

        if not found then
            select k.task_attempt
            into owner_attempt
            from pgq.staged_task as k
            where k.write_id = write_chunk.write_id
                and k.task = write_chunk.task;

            if owner_attempt is distinct from write_chunk.task_attempt then
                return false;
            end if;
        end if;
    else
        -- The lock lets commit_write wait for this chunk, and this chunk see that it comes too
        -- late.
        perform
        from pgq.bulk_write as w
        where w.write_id = write_chunk.write_id
            and w.committed_at is null
        for share;

        if not found then
            perform pgq._fail_write_lost(
                write_chunk.write_id, 'It was committed, begun anew or aborted meanwhile.'
            );
        end if;

        content_digest := hash_record_extended(
            row(
                write_chunk.packed,
                write_chunk.lengths,
                write_chunk.keys,
                write_chunk.headers,
                write_chunk.labels,
                write_chunk.partition,
                write_chunk.is_json
            ),
            0
        );

        insert into pgq.published_chunk (
            bulk_write_id, task, chunk, messages, digest, write_id
        )
        values (
            target.bulk_write_id,
            write_chunk.task,
            write_chunk.chunk,
            cardinality(write_chunk.lengths),
            content_digest,
            write_chunk.write_id
        )
        on conflict do nothing;

        if not found then
            update pgq.published_chunk as p
            set write_id = write_chunk.write_id
            where p.bulk_write_id = target.bulk_write_id
                and p.task = write_chunk.task
                and p.chunk = write_chunk.chunk
                and p.digest = content_digest;

            if not found then
                raise exception 'chunk % of task % was written before with other contents',
                    write_chunk.chunk, write_chunk.task
                    using errcode = '22023',
                        detail = 'A repeated task must make the same chunks; this one did not.',
                        hint = 'What was published stays. For input that is not the same each '
                            'time, begin new writes as atomic ones.';
            end if;
            return false;
        end if;
    end if;

    -- Where all messages go to one partition as they are, and the writer tells where each begins,
    -- the chunk can stay as it is until they are stored: that takes least time.
    is_whole := write_chunk.starts is not null
        and target.topic is not null
        and not write_chunk.is_json
        and (write_chunk.keys is null or write_chunk.partition is not null)
        and current_setting('transaction_isolation') not in ('repeatable read', 'serializable');

    if is_whole then
        size := pgq._check_packed(
            write_chunk.packed,
            write_chunk.starts,
            write_chunk.lengths,
            write_chunk.keys,
            write_chunk.headers
        );
    else
        contents := pgq._unpack(write_chunk.packed, write_chunk.lengths);
        if write_chunk.is_json then
            documents := array(
                select convert_from(b.body, 'UTF8')::jsonb
                from unnest(contents) with ordinality as b (body, place)
                order by b.place
            );
            contents := null;
        end if;
    end if;

    if not target.atomic then
        if is_whole then
            perform pgq._publish_packed(
                target.topic,
                write_chunk.packed,
                write_chunk.starts,
                write_chunk.lengths,
                write_chunk.keys,
                write_chunk.headers,
                write_chunk.partition
            );
        else
            perform pgq._write_messages(
                target.topic,
                target.queue,
                documents,
                contents,
                write_chunk.keys,
                write_chunk.headers,
                write_chunk.labels,
                write_chunk.partition,
                write_chunk.priority,
                write_chunk.delay
            );
        end if;
        return true;
    end if;

    -- What is wrong with it is told now, to the task that made it, and not to commit_write.
    size := coalesce(
        size,
        pgq._check_batch(
            documents, contents, write_chunk.keys, write_chunk.headers, write_chunk.labels
        )
    );

    insert into pgq.staged_chunk (
        write_id,
        task,
        chunk,
        partition,
        priority,
        delay,
        messages,
        packed,
        starts,
        lengths,
        payloads,
        bodies,
        keys,
        headers,
        labels
    )
    values (
        write_chunk.write_id,
        write_chunk.task,
        write_chunk.chunk,
        write_chunk.partition,
        write_chunk.priority,
        write_chunk.delay,
        size,
        case when is_whole then write_chunk.packed end,
        case when is_whole then write_chunk.starts end,
        case when is_whole then write_chunk.lengths end,
        documents,
        contents,
        write_chunk.keys,
        write_chunk.headers,
        write_chunk.labels
    )
    on conflict do nothing;
    is_new := found;

    if not is_new
        and not exists (
            select
            from pgq.staged_chunk as c
            where c.write_id = write_chunk.write_id
                and c.task = write_chunk.task
                and c.chunk = write_chunk.chunk
                and (
                    not is_whole
                    or c.packed = write_chunk.packed and c.lengths = write_chunk.lengths
                )
                and c.payloads is not distinct from documents
                and c.bodies is not distinct from contents
                and c.keys is not distinct from write_chunk.keys
                and c.headers is not distinct from write_chunk.headers
                and c.labels is not distinct from write_chunk.labels
                and c.partition is not distinct from write_chunk.partition
        )
    then
        raise exception 'chunk % of task % was written before with other contents',
            write_chunk.chunk, write_chunk.task
            using errcode = '22023',
                detail = 'One attempt to run the task gave two chunks the same number.';
    end if;

    if write_chunk.last then
        update pgq.staged_task as k
        set messages = (
            select sum(c.messages)
            from pgq.staged_chunk as c
            where c.write_id = write_chunk.write_id
                and c.task = write_chunk.task
        )
        where k.write_id = write_chunk.write_id
            and k.task = write_chunk.task;
    end if;
    return is_new;
end
$$;

comment on function pgq.write_chunk(
    uuid, integer, text, integer, bytea, integer[], text[], jsonb[], text[], integer, integer,
    interval, boolean, boolean, integer[]
) is
'Adds a chunk of messages to a bulk write; false when it has been written already.
packed holds the contents one behind the other, lengths their lengths in bytes; they are JSON texts
when is_json is set, else raw bytes. starts may tell where each content begins, from 1, which saves
time where a chunk goes to one partition; whoever gives it sees to it that each content begins where
the one before ends. keys, headers and labels are as in publish_batch and enqueue_batch. task and
chunk number the chunks from 0; task_attempt is different for each attempt to run the task. In an
atomic write all chunks of an attempt must be in one transaction, the last one marked as last; when
several attempts of a task commit, the first one counts. Else each chunk is published in the
transaction of its call, once for each task and chunk: a repeated task has to make the same chunks.
The view write_chunks does the same for those who can only insert.
Errors: MQ008 the write was committed, begun anew, aborted or forgotten, its topic or queue was
dropped, or the server crashed, MQ007 unknown partition,
22004 a null, 22023 bad arguments, or the chunk was written before with other contents, 22P02 or
22021 contents that are no JSON, 40001 under REPEATABLE READ or SERIALIZABLE when another attempt
was first, and those of publish_batch and enqueue_batch.';

-- ==== sql/bulk/commit_write.sql

create function pgq.commit_write(write_id uuid, expected_messages bigint default null)
returns pgq.bulk_write_state
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
    target pgq.bulk_write;
    topic_name text;
    queue_name text;
    partition_count integer;
    total bigint;
    stale_task integer;
    chunk record;
begin
    -- An old snapshot would not show all that was staged, and the rest would be lost.
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        raise exception 'commit_write needs READ COMMITTED'
            using errcode = '25001',
                hint = 'Call it in a transaction of that isolation level.';
    end if;

    -- Attempts that begin it anew, and chunks that are published, wait for this one or are waited
    -- for.
    select w.*
    into target
    from pgq.bulk_write as w
    where w.write_id = commit_write.write_id
    for update;

    if target.bulk_write_id is null then
        perform pgq._fail_write_lost(
            commit_write.write_id,
            'It was never begun, was begun anew by others, aborted or forgotten.'
        );
    end if;

    if target.committed_at is not null then
        return row(target.write_id, target.messages, target.committed_at, true)
            ::pgq.bulk_write_state;
    end if;

    if target.atomic then
        if not exists (
            select from pgq.staged_write as s where s.write_id = target.write_id
        ) then
            perform pgq._fail_write_lost(
                target.write_id, 'The server crashed, and what was staged is gone.'
            );
        end if;

        select coalesce(sum(k.messages), 0)
        into total
        from pgq.staged_task as k
        where k.write_id = target.write_id;

        perform pgq._fail_write_lost(
            target.write_id,
            format(
                'Task %s staged %s of %s messages: its last chunk never came, or its chunks were '
                'in several transactions.',
                k.task, coalesce(s.messages, 0), coalesce(k.messages::text, 'unknown')
            )
        )
        from pgq.staged_task as k
        cross join lateral (
            select sum(c.messages) as messages
            from pgq.staged_chunk as c
            where c.write_id = k.write_id
                and c.task = k.task
        ) as s
        where k.write_id = target.write_id
            and s.messages is distinct from k.messages
        order by k.task
        limit 1;
    else
        select
            coalesce(sum(p.messages), 0),
            min(p.task) filter (where p.write_id <> target.write_id)
        into total, stale_task
        from pgq.published_chunk as p
        where p.bulk_write_id = target.bulk_write_id;

        if stale_task is not null then
            raise exception 'bulk write % was divided in another way before', target.write_id
                using errcode = '22023',
                    detail = format(
                        'An earlier attempt published chunks of task %s that this one did not '
                        'write; their messages may have been published twice.', stale_task
                    ),
                    hint = 'A repeated write must have the same tasks and chunks. For input that '
                        'may be divided differently, begin new writes as atomic ones.';
        end if;
    end if;

    if total <> commit_write.expected_messages then
        raise exception 'bulk write % has another number of messages than expected', target.write_id
            using errcode = '22023',
                detail = format(
                    'Expected: %s; written: %s.', commit_write.expected_messages, total
                ),
                hint = case
                    when target.atomic then 'Nothing was published.'
                    else 'The chunks that came have been published.'
                end;
    end if;

    if target.atomic then
        select t.partitions
        into partition_count
        from pgq.topic as t
        where t.topic_id = target.topic_id;

        -- In ascending order, as everywhere; the chunks then come in any.
        perform
        from pgq.partition as p
        where p.topic_id = target.topic_id
            and (
                p.partition in (
                    select coalesce(c.partition, c.task % partition_count)
                    from pgq.staged_chunk as c
                    where c.write_id = target.write_id
                )
                or exists (
                    select
                    from pgq.staged_chunk as c
                    where c.write_id = target.write_id
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
        where t.topic_id = target.topic_id;

        select q.queue
        into queue_name
        from pgq.queue as q
        where q.queue_id = target.queue_id;

        if num_nonnulls(topic_name, queue_name) = 0 then
            perform pgq._fail_write_lost(target.write_id, 'Its topic or queue was dropped.');
        end if;

        for chunk in
            select c.*
            from pgq.staged_chunk as c
            where c.write_id = target.write_id
            order by c.task, c.chunk
        loop
            if chunk.packed is not null then
                perform pgq._publish_packed(
                    topic_name,
                    chunk.packed,
                    chunk.starts,
                    chunk.lengths,
                    chunk.keys,
                    chunk.headers,
                    coalesce(chunk.partition, chunk.task % partition_count)
                );
                continue;
            end if;

            perform pgq._write_messages(
                topic_name,
                queue_name,
                chunk.payloads,
                chunk.bodies,
                chunk.keys,
                chunk.headers,
                chunk.labels,
                case
                    when chunk.partition is null and chunk.keys is null
                        then chunk.task % partition_count
                    else chunk.partition
                end,
                chunk.priority,
                chunk.delay
            );
        end loop;

        perform pgq._forget_staged(target.write_id);
    else
        delete from pgq.published_chunk as p
        where p.bulk_write_id = target.bulk_write_id;
    end if;

    update pgq.bulk_write as w
    set
        committed_at = pgq._clock(),
        messages = total
    where w.bulk_write_id = target.bulk_write_id
    returning w.committed_at
    into target.committed_at;

    -- What is older than the newest 1000 is forgotten, but for this one, which may be asked for
    -- again; begin_write refuses the others from then on.
    delete from pgq.bulk_write as w
    where w.producer = target.producer
        and coalesce(w.topic_id, 0) = coalesce(target.topic_id, 0)
        and coalesce(w.queue_id, 0) = coalesce(target.queue_id, 0)
        and w.committed_at is not null
        and w.bulk_write_id <> target.bulk_write_id
        and w.seq < (
            select n.seq
            from pgq.bulk_write as n
            where n.producer = target.producer
                and coalesce(n.topic_id, 0) = coalesce(target.topic_id, 0)
                and coalesce(n.queue_id, 0) = coalesce(target.queue_id, 0)
                and n.committed_at is not null
            order by n.seq desc
            offset 999
            limit 1
        );

    return row(target.write_id, total, target.committed_at, false)::pgq.bulk_write_state;
end
$$;

comment on function pgq.commit_write(uuid, bigint) is
'Ends a bulk write; what was staged for an atomic one is published, all at once.
The partitions written to are locked for other publishers from here to the end of the transaction.
Within a task messages keep their order, and tasks follow each other by number; messages without
key and partition go to the partition task modulo the number of partitions. Repeating the call is
harmless: the result says repeated. With expected_messages, another number is refused. From now on
chunks of late writers are refused.
Errors: MQ008 the write was begun anew, aborted or forgotten, its topic or queue was dropped, or a
part of what was staged is not there (begin it anew), 22004 no write_id, 22023 another number of
messages than expected, or a write that is not atomic was begun anew and made other chunks, 25001
not under READ COMMITTED, and those of publish_batch and enqueue_batch.';

-- ==== sql/bulk/abort_write.sql

create function pgq.abort_write(write_id uuid)
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
    target pgq.bulk_write;
begin
    if abort_write.write_id is null then
        perform pgq._fail_write_lost(abort_write.write_id, null);
    end if;

    select w.*
    into target
    from pgq.bulk_write as w
    where w.write_id = abort_write.write_id
        and w.committed_at is null
    for update;

    if target.bulk_write_id is null then
        return false;
    end if;

    perform pgq._forget_staged(target.write_id);

    if target.atomic or target.producer is null then
        delete from pgq.bulk_write as w
        where w.bulk_write_id = target.bulk_write_id;
    else
        -- What was published stays, and is left out when the write is begun anew.
        update pgq.bulk_write as w
        set write_id = gen_random_uuid()
        where w.bulk_write_id = target.bulk_write_id;
    end if;
    return true;
end
$$;

comment on function pgq.abort_write(uuid) is
'Gives up a bulk write, removes what was staged for it, and refuses those who still write.
Chunks that were published already stay; when the write is begun anew they are left out. False when
there is no such write, or it has been committed.
Errors: 22004 no write_id.';

-- ==== sql/bulk/_write_chunk_row.sql

create function pgq._write_chunk_row()
returns trigger
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    if pgq.write_chunk(
        new.write_id::uuid,
        new.task,
        new.task_attempt,
        new.chunk,
        new.packed,
        new.lengths,
        new.keys,
        new.headers::jsonb[],
        new.labels,
        new.partition,
        new.priority,
        new.delay::interval,
        coalesce(new.is_json, false),
        coalesce(new.last, false),
        new.starts
    ) then
        return new;
    end if;
    return null;
end
$$;

comment on function pgq._write_chunk_row() is
'Calls write_chunk for each row inserted into write_chunks.';

-- ==== sql/bulk/_publish_row.sql

create function pgq._publish_row()
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
        new.topic,
        new.payload::jsonb,
        new.key,
        new.headers::jsonb,
        new.partition,
        new.body
    );
    return new;
end
$$;

comment on function pgq._publish_row() is
'Calls publish for each row inserted into publish_rows.';

-- ==== sql/bulk/_enqueue_row.sql

create function pgq._enqueue_row()
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
        body => new.body,
        delay => new.delay::interval,
        priority => coalesce(new.priority, 0),
        label => new.label,
        headers => new.headers::jsonb,
        key => new.key,
        run_at => new.run_at
    );
    return new;
end
$$;

comment on function pgq._enqueue_row() is
'Calls enqueue for each row inserted into enqueue_rows.';

-- ==== sql/operations/_clean_jobs.sql

create function pgq._clean_jobs(moment timestamptz)
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    return query
    with found as materialized (
        select j.job_id
        from pgq.job as j
        where j.expires_at <= _clean_jobs.moment
            and (j.lease_token is null or j.visible_at <= _clean_jobs.moment)
        for update skip locked
    ),

    expired as (
        delete from pgq.job as j
        using found as f
        where j.job_id = f.job_id
        returning j.*
    ),

    archived as (
        insert into pgq.job_archive (
            job_id, queue_id, ended_at, segment, attempt, outcome, label, last_error
        )
        select
            e.job_id,
            e.queue_id,
            _clean_jobs.moment,
            e.segment,
            e.attempt,
            'expired',
            e.label,
            e.last_error
        from expired as e
        inner join pgq.queue as q on q.queue_id = e.queue_id
        where q.archive
    )

    select 'jobs expired', q.queue, count(*)
    from expired as e
    inner join pgq.queue as q on q.queue_id = e.queue_id
    group by q.queue;

    return query
    with found as materialized (
        select j.job_id, j.queue_id, q.max_attempts
        from pgq.job as j
        inner join pgq.queue as q on q.queue_id = j.queue_id
        where j.attempt >= q.max_attempts
            and j.visible_at <= _clean_jobs.moment
        for update of j skip locked
    ),

    buried as (
        select pgq._bury(
            array[f.job_id], f.max_attempts, 'the lease of the last attempt ran out'
        ), f.queue_id
        from found as f
    )

    select 'jobs dead', q.queue, count(*)
    from buried as b
    inner join pgq.queue as q on q.queue_id = b.queue_id
    group by q.queue;

    return query
    with removed as (
        delete from pgq.dead_job as d
        using pgq.queue as q
        where q.queue_id = d.queue_id
            and d.died_at + q.retention <= _clean_jobs.moment
        returning q.queue
    )

    select 'dead letters removed', r.queue, count(*)
    from removed as r
    group by r.queue;

    -- An enqueue that was under way when its queue was dropped.
    delete from pgq.job as j
    where not exists (select from pgq.queue as q where q.queue_id = j.queue_id);
    delete from pgq.dead_job as d
    where not exists (select from pgq.queue as q where q.queue_id = d.queue_id);

    -- Nothing may be written below a floor; should the clock have been set back, jobs may stand
    -- there.
    return query
    with lock as materialized (
        select l.queue_id
        from pgq.queue_floor_lock as l
        for no key update skip locked
    ),

    stranded as (
        select
            f.queue_id,
            f.seq,
            f.recorded_at,
            f.safe_at,
            f.candidate_at,
            f.candidate_xid,
            s.floor_times,
            s.floor_ids
        from lock as l
        cross join lateral (
            select g.*
            from pgq.queue_floor as g
            where g.queue_id = l.queue_id
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
                    k.visible_at,
                    k.job_id,
                    (k.visible_at, k.job_id) < (p.floor_time, p.floor_id) as below
                from pgq.job as k
                where k.queue_id = f.queue_id
                    and k.priority = p.place - 1
                order by k.visible_at, k.job_id
                limit 1
            ) as j on true
        ) as s
        where s.below
    ),

    lowered as (
        insert into pgq.queue_floor (
            queue_id, seq, floor_times, floor_ids, recorded_at, safe_at, candidate_at, candidate_xid
        )
        select
            s.queue_id,
            s.seq + 1,
            s.floor_times,
            s.floor_ids,
            s.recorded_at,
            s.safe_at,
            s.candidate_at,
            s.candidate_xid
        from stranded as s
        on conflict do nothing
        returning queue_id
    )

    select 'floor lowered', q.queue, 1::bigint
    from lowered as l
    inner join pgq.queue as q on q.queue_id = l.queue_id;
end
$$;

comment on function pgq._clean_jobs(timestamptz) is
'The part of cleanup that removes expired jobs and old dead letters and buries jobs that lost their
workers.';

-- ==== sql/operations/_clean_positions.sql

create function pgq._clean_positions()
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    return query
    with trimmed as (
        delete from pgq.group_position as j
        using pgq.group_partition as l
        where j.group_id = l.group_id
            and j.partition = l.partition
            and j.seq < (
                select k.seq - 1000
                from pgq.group_position as k
                where k.group_id = l.group_id
                    and k.partition = l.partition
                order by k.seq desc
                limit 1
            )
        returning j.group_id
    )

    select 'positions trimmed', t.topic || '/' || g.consumer_group, count(*)
    from trimmed as r
    inner join pgq.consumer_group as g on g.group_id = r.group_id
    inner join pgq.topic as t on t.topic_id = g.topic_id
    group by t.topic, g.consumer_group;
end
$$;

comment on function pgq._clean_positions() is
'The part of cleanup that trims the journals of positions; each keeps its last 1000 rows.';

-- ==== sql/operations/_clean_writes.sql

create function pgq._clean_writes(moment timestamptz)
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.bulk_write;
    lost uuid;
begin
    -- Given up: nobody came to commit them, or there is nothing left to write to.
    for target in
        select w.*
        from pgq.bulk_write as w
        where w.committed_at is null
            and (
                w.expires_at <= _clean_writes.moment
                or not exists (
                    select
                    from pgq.topic as t
                    where t.topic_id = w.topic_id
                )
                and not exists (
                    select
                    from pgq.queue as q
                    where q.queue_id = w.queue_id
                )
            )
        for update of w skip locked
    loop
        delete from pgq.bulk_write as w
        where w.bulk_write_id = target.bulk_write_id;

        return next row('bulk write forgotten', target.write_id::text, 1)::pgq.cleanup_report;
    end loop;

    -- Writes that no producer can ask for again are kept a day, for a repeated commit_write.
    delete from pgq.bulk_write as w
    where w.producer is null
        and w.committed_at <= _clean_writes.moment - interval '1 day'
        or w.committed_at is not null
        and not exists (
            select
            from pgq.topic as t
            where t.topic_id = w.topic_id
        )
        and not exists (
            select
            from pgq.queue as q
            where q.queue_id = w.queue_id
        );

    -- What writers staged who did not know yet that their write had ended.
    for lost in
        select s.write_id
        from (
            select m.write_id from pgq.staged_write as m
            union
            select k.write_id from pgq.staged_task as k
            union
            select c.write_id from pgq.staged_chunk as c
        ) as s
        where not exists (
            select
            from pgq.bulk_write as w
            where w.write_id = s.write_id
                and w.committed_at is null
        )
    loop
        perform pgq._forget_staged(lost);

        return next row('staged write removed', lost::text, 1)::pgq.cleanup_report;
    end loop;
end
$$;

comment on function pgq._clean_writes(timestamptz) is
'The part of cleanup that forgets bulk writes nobody commits, and what was staged for them.';

-- ==== sql/operations/_close_segments.sql

create function pgq._close_segments(started pg_snapshot, horizon xid8)
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.segment;
    place record;
begin
    -- Note from which transaction on nobody can write to a sealed segment any more: the id that
    -- this one took when it had seen the segment sealed. An id from before a restore into another
    -- cluster may lie in the future here: all its contemporaries are gone.
    update pgq.segment as s
    set horizon = _close_segments.horizon
    where s.state = 'sealed'
        and _close_segments.horizon is not null
        and (
            s.horizon is null
            and (
                s.sealed_xid < pg_snapshot_xmin(_close_segments.started)
                or s.sealed_xid >= pg_snapshot_xmax(pg_current_snapshot())
            )
            or s.horizon >= pg_snapshot_xmax(pg_current_snapshot())
        );

    for target in
        select s.*
        from pgq.segment as s
        where s.state = 'sealed'
            and s.horizon <= pg_snapshot_xmin(_close_segments.started)
        order by s.segment
        for update skip locked
    loop
        -- Partitions that had no message since still point here; a publisher may hold one of them.
        for place in
            select
                row(
                    p.partition,
                    p.partition_id,
                    p.segment,
                    p.segment_first_offset,
                    p.segment_entered_at,
                    t.segment,
                    t.notify
                )::pgq._partition_state as state,
                t.topic
            from pgq.partition as p
            inner join pgq.topic as t on t.topic_id = p.topic_id
            where p.segment = target.segment
            order by t.topic_id, p.partition
            for no key update of p skip locked
        loop
            perform pgq._enter_segment(place.topic, place.state);
        end loop;

        -- A new statement, so it sees what was skipped.
        continue when exists (select from pgq.partition as p where p.segment = target.segment);

        update pgq.segment as s
        set
            state = 'closed',
            closed_at = pgq._clock()
        where s.segment = target.segment;

        return next row('segment closed', target.segment::text, 1)::pgq.cleanup_report;
    end loop;
end
$$;

comment on function pgq._close_segments(pg_snapshot, xid8) is
'The part of cleanup that closes sealed segments once nobody can write to them any more.';

-- ==== sql/operations/_seal_segments.sql

create function pgq._seal_segments(moment timestamptz)
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    class pgq.storage_class;
    target pgq.segment;
    used boolean;
    filled boolean;
begin
    for class in
        select c.*
        from pgq.storage_class as c
        order by c.storage_class_id
        for update skip locked
    loop
        select s.*
        into target
        from pgq.segment as s
        where s.storage_class_id = class.storage_class_id
            and s.state = 'open';

        used := exists (
            select from pgq.topic as t where t.storage_class_id = class.storage_class_id
        ) or exists (
            select from pgq.queue as q where q.storage_class_id = class.storage_class_id
        );

        if target.segment is null then
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
            continue;
        end if;

        filled := exists (select from pgq.message as m where m.segment = target.segment)
            or exists (select from pgq.job_archive as a where a.segment = target.segment);

        if used and not filled then
            -- An empty segment does not age.
            update pgq.segment as s
            set opened_at = _seal_segments.moment
            where s.segment = target.segment;
            continue;
        end if;

        continue when used
            and (target.opened_at + class.retention / 3 <= _seal_segments.moment) is not true
            and (
                pg_table_size(('pgq.message_' || target.segment)::regclass) > class.max_bytes / 3
            ) is not true;

        update pgq.segment as s
        set
            state = 'sealed',
            sealed_at = _seal_segments.moment,
            sealed_xid = pg_current_xact_id()
        where s.segment = target.segment;

        if used then
            perform pgq._open_segment(class.storage_class_id);

            update pgq.topic as t
            set segment = pgq._open_segment_of(class.storage_class_id)
            where t.storage_class_id = class.storage_class_id;

            update pgq.queue as q
            set segment = pgq._open_segment_of(class.storage_class_id)
            where q.storage_class_id = class.storage_class_id;
        end if;

        return next row('segment sealed', target.segment::text, 1)::pgq.cleanup_report;
    end loop;
end
$$;

comment on function pgq._seal_segments(timestamptz) is
'The part of cleanup that lets a storage class go on to a new segment, and forgets classes out of
use.';

-- ==== sql/operations/_move_payloads.sql

create function pgq._move_payloads(leaf integer)
returns bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    moved bigint := 0;
    moved_now bigint;
begin
    -- The caller has the leaf for itself. A job that is being finished right now keeps its row
    -- locked, and the lock timeout of the caller ends the attempt. One that died, or was redriven,
    -- while its row was waited for has a new row, which only the next statement sees.
    loop
        with living as materialized (
            select j.job_id, j.queue_id
            from pgq.job as j
            where j.segment = _move_payloads.leaf
            union all
            select d.job_id, d.queue_id
            from pgq.dead_job as d
            where d.segment = _move_payloads.leaf
        ),

        copied as (
            insert into pgq.message (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                m.partition_id,
                m.log_offset,
                m.published_at,
                q.segment,
                m.key,
                m.headers,
                m.payload,
                m.body
            from living as l
            inner join pgq.queue as q on q.queue_id = l.queue_id
            inner join pgq.message as m
                on m.segment = _move_payloads.leaf
                and m.partition_id = q.partition_id
                and m.log_offset = l.job_id
            on conflict do nothing
        ),

        moved_jobs as (
            update pgq.job as j
            set segment = q.segment
            from pgq.queue as q
            where j.segment = _move_payloads.leaf
                and q.queue_id = j.queue_id
            returning j.job_id
        ),

        moved_dead_jobs as (
            update pgq.dead_job as d
            set segment = q.segment
            from pgq.queue as q
            where d.segment = _move_payloads.leaf
                and q.queue_id = d.queue_id
            returning d.job_id
        )

        select (select count(*) from moved_jobs) + (select count(*) from moved_dead_jobs)
        into moved_now;

        moved := moved + moved_now;

        exit when not exists (
            select
            from pgq.job as j
            inner join pgq.queue as q on q.queue_id = j.queue_id
            where j.segment = _move_payloads.leaf
        ) and not exists (
            select
            from pgq.dead_job as d
            inner join pgq.queue as q on q.queue_id = d.queue_id
            where d.segment = _move_payloads.leaf
        );
    end loop;

    return moved;
end
$$;

comment on function pgq._move_payloads(integer) is
'Copies the payloads of unfinished and dead jobs from a segment to those written to now, and
returns how many.';

-- ==== sql/operations/_truncate_segments.sql

create function pgq._truncate_segments(moment timestamptz)
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
    moved bigint;
    bytes bigint;
begin
    for target in
        select
            s.segment,
            c.retention,
            c.max_bytes,
            c.storage_class_id,
            s.closed_at,
            not exists (
                select from pgq.topic as t where t.storage_class_id = c.storage_class_id
            )
            and not exists (
                select from pgq.queue as q where q.storage_class_id = c.storage_class_id
            )
            and not exists (
                select from pgq.segment_range as r where r.segment = s.segment
            ) as out_of_use
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

        -- Here and not in the query of the loop: what that one reads cannot be truncated.
        if target.out_of_use then
            target.out_of_use := not exists (
                select
                from pgq.job_archive as a
                inner join pgq.queue as q on q.queue_id = a.queue_id
                where a.segment = target.segment
            );
        end if;

        continue when not target.out_of_use
            and (target.closed_at + target.retention <= _truncate_segments.moment) is not true
            and (bytes >= target.max_bytes) is not true;

        -- Wait a moment at most, and try again next time: whoever reads behind us would wait as
        -- well.
        begin
            execute format(
                'lock table pgq.message_%1$s, pgq.job_archive_%1$s in access exclusive mode',
                target.segment
            );
            moved := pgq._move_payloads(target.segment);
            execute format('truncate pgq.message_%1$s, pgq.job_archive_%1$s', target.segment);

            -- The log of a partition begins behind what is removed. Older messages that were to be
            -- kept longer, before its retention became shorter, go from sight with it.
            delete from pgq.segment_range as r
            using pgq.segment_range as s
            where s.segment = target.segment
                and r.partition_id = s.partition_id
                and r.first_offset <= s.first_offset;
            delete from pgq.segment as s
            where s.segment = target.segment;
        exception
            when lock_not_available then
                return next row('segment busy', target.segment::text, 1)::pgq.cleanup_report;
                return;
        end;

        if moved > 0 then
            return next row('payloads moved', target.segment::text, moved)::pgq.cleanup_report;
        end if;
        return next row('segment truncated', target.segment::text, 1)::pgq.cleanup_report;
    end loop;
end
$$;

comment on function pgq._truncate_segments(timestamptz) is
'The part of cleanup that empties closed segments whose messages are older than their retention.';

-- ==== sql/operations/cleanup.sql

create function pgq.cleanup()
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
    -- An id that is higher than all those at work: not if this transaction had one before.
    started pg_snapshot := pg_current_snapshot();
    horizon xid8 := case
        when pg_current_xact_id_if_assigned() is null then pg_current_xact_id()
    end;
    moment timestamptz := pgq._clock();
    part text;
begin
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        raise exception 'cleanup needs READ COMMITTED'
            using errcode = '25001',
                hint = 'Call it in a transaction of its own.';
    end if;

    -- A part that meets a lock is undone and reported as busy, the others are done. What holds
    -- strong locks comes last.
    foreach part in array array[
        'jobs', 'positions', 'writes', 'closing', 'sealing', 'truncation'
    ] loop
        begin
            case part
                when 'jobs' then
                    return query
                    select r.* from pgq._clean_jobs(moment) as r;
                when 'positions' then
                    return query
                    select r.* from pgq._clean_positions() as r;
                when 'writes' then
                    return query
                    select r.* from pgq._clean_writes(moment) as r;
                when 'closing' then
                    return query
                    select r.* from pgq._close_segments(started, horizon) as r;
                when 'sealing' then
                    return query
                    select r.* from pgq._seal_segments(moment) as r;
                when 'truncation' then
                    return query
                    select r.* from pgq._truncate_segments(moment) as r;
            end case;
        exception
            when lock_not_available then
                return next row('busy', part, 1)::pgq.cleanup_report;
        end;
    end loop;
end
$$;

comment on function pgq.cleanup() is
'Does the housekeeping, and returns what was done, a row per thing.
It removes expired jobs and old dead letters, moves jobs whose worker was lost on its last attempt
to the dead ones, forgets bulk writes past their timeout, opens new segments, and empties those that
are older than their retention. Call it every minute or so, from cron or pg_cron or any client;
delivery never depends on it, disk space does. It waits 0.2 s at most for a lock; the part that met
it is then undone and reported as busy, and the next call goes on. Several at once do no harm.
Errors: 25001 not under READ COMMITTED.';

-- ==== sql/shared/leaves.sql

-- The leaves that an installation starts with; more are made when all of these are in use.
do $leaves$
begin
    for leaf in 0 .. 7 loop
        perform pgq._create_leaf(leaf);
    end loop;
end
$leaves$;

-- ==== sql/log/views.sql

create view pgq.messages
with (security_barrier) as
select
    t.topic,
    p.partition,
    m.log_offset,
    m.published_at,
    m.key,
    m.headers,
    m.payload,
    m.body,
    m.partition_id
from pgq.message as m
inner join pgq.partition as p on m.partition_id = p.partition_id
inner join pgq.topic as t on p.topic_id = t.topic_id;

comment on view pgq.messages is
'The messages of all topics, for reading in bulk: whole ranges, by several sessions at once.
Name the partition by partition_id = (select pgq.check_range(...)), and the offsets: that is an
index scan, and an error when retention has removed a part of it. Rows come in any order.';
comment on column pgq.messages.topic is 'The topic.';
comment on column pgq.messages.partition is 'The partition, from 0.';
comment on column pgq.messages.log_offset is 'Its offset in the partition, from 1.';
comment on column pgq.messages.published_at is 'When it was published.';
comment on column pgq.messages.key is 'Its key; null: none.';
comment on column pgq.messages.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.messages.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.messages.body is 'Its content as raw bytes; null when it has a payload.';
comment on column pgq.messages.partition_id is 'What check_range returns for its partition.';

-- ==== sql/bulk/views.sql

-- For clients that can only insert, JDBC writers among them. Columns have the types that a JDBC
-- driver sends: text where the functions have uuid, jsonb or interval.

create view pgq.write_chunks as
select
    null::text as write_id,
    null::integer as task,
    null::text as task_attempt,
    null::integer as chunk,
    null::bytea as packed,
    null::integer[] as lengths,
    null::text[] as keys,
    null::text[] as headers,
    null::text[] as labels,
    null::integer as partition,
    null::integer as priority,
    null::text as delay,
    null::boolean as is_json,
    null::boolean as last,
    null::integer[] as starts
where false;

create trigger write_chunks
instead of insert on pgq.write_chunks
for each row execute function pgq._write_chunk_row();

comment on view pgq.write_chunks is
'Always empty; a row that is inserted is a call of write_chunk.';
comment on column pgq.write_chunks.write_id is 'What begin_write returned.';
comment on column pgq.write_chunks.task is 'The number of the task, from 0.';
comment on column pgq.write_chunks.task_attempt is 'What tells the attempts of a task apart.';
comment on column pgq.write_chunks.chunk is 'The number of the chunk within its task, from 0.';
comment on column pgq.write_chunks.packed is 'The contents, one behind the other.';
comment on column pgq.write_chunks.lengths is 'The length of each content, in bytes.';
comment on column pgq.write_chunks.keys is 'The key of each message; null: no keys.';
comment on column pgq.write_chunks.headers is
'The headers of each message, JSON objects; null: no headers.';
comment on column pgq.write_chunks.labels is 'The label of each job; null: no labels.';
comment on column pgq.write_chunks.partition is 'The partition to publish to; null: see publish.';
comment on column pgq.write_chunks.priority is 'The priority of jobs; null: 0.';
comment on column pgq.write_chunks.delay is 'The delay of jobs, an interval; null: the queue''s.';
comment on column pgq.write_chunks.is_json is
'Whether the contents are JSON; null or false: bytes.';
comment on column pgq.write_chunks.starts is
'Where each content begins in packed, from 1; null: to be found from lengths.';
comment on column pgq.write_chunks.last is 'Whether this is the last chunk of its task.';

create view pgq.publish_rows as
select
    null::text as topic,
    null::text as key,
    null::text as payload,
    null::bytea as body,
    null::text as headers,
    null::integer as partition
where false;

create trigger publish_rows
instead of insert on pgq.publish_rows
for each row execute function pgq._publish_row();

comment on view pgq.publish_rows is
'Always empty; a row that is inserted is a call of publish.';
comment on column pgq.publish_rows.topic is 'The topic.';
comment on column pgq.publish_rows.key is 'The key of the message; null: none.';
comment on column pgq.publish_rows.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.publish_rows.body is 'Its content as raw bytes; null when it has a payload.';
comment on column pgq.publish_rows.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.publish_rows.partition is 'The partition to publish to; null: see publish.';

create view pgq.enqueue_rows as
select
    null::text as queue,
    null::text as key,
    null::text as payload,
    null::bytea as body,
    null::text as headers,
    null::text as label,
    null::integer as priority,
    null::text as delay,
    null::timestamptz as run_at
where false;

create trigger enqueue_rows
instead of insert on pgq.enqueue_rows
for each row execute function pgq._enqueue_row();

comment on view pgq.enqueue_rows is
'Always empty; a row that is inserted is a call of enqueue.';
comment on column pgq.enqueue_rows.queue is 'The queue.';
comment on column pgq.enqueue_rows.key is 'The key of the job; null: none.';
comment on column pgq.enqueue_rows.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.enqueue_rows.body is 'Its content as raw bytes; null when it has a payload.';
comment on column pgq.enqueue_rows.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.enqueue_rows.label is 'What a claim may ask for; null: no label.';
comment on column pgq.enqueue_rows.priority is '0 (first) to 9 (last); null: 0.';
comment on column pgq.enqueue_rows.delay is
'An interval to the first delivery; null: the queue''s.';
comment on column pgq.enqueue_rows.run_at is 'When it is due; null: see delay.';

-- ==== sql/operations/views.sql

-- Whoever reads a view needs the right to the functions in it, though not to its tables. So the
-- views do without the helpers, but for two that are open to all.
-- The linter cannot lay out lateral joins.
-- noqa: disable=AM09,LT02,LT09,LT14,ST05,ST09

create view pgq.group_lag
with (security_barrier) as
select
    t.topic,
    g.consumer_group,
    p.partition,
    q.next_offset - 1 as position,
    s.tip,
    s.tip - q.next_offset + 1 as lag,
    case when s.tip >= q.next_offset then o.published_at end as oldest_published_at,
    case when q.leased_until > pgq._clock() then q.leased_until end as leased_until
from pgq.topic as t
inner join pgq.consumer_group as g on g.topic_id = t.topic_id
inner join pgq.partition as p on p.topic_id = t.topic_id
cross join lateral (
    select j.next_offset, j.leased_until
    from pgq.group_position as j
    where j.group_id = g.group_id
        and j.partition = p.partition
    order by j.seq desc
    limit 1
) as q
cross join lateral (
    select coalesce(
        (
            select m.log_offset
            from pgq.message as m
            where m.segment = p.segment
                and m.partition_id = p.partition_id
                and m.log_offset >= p.segment_first_offset
            order by m.log_offset desc
            limit 1
        ),
        p.segment_first_offset - 1
    ) as tip
) as s
left join lateral (
    select m.published_at
    from pgq.message as m
    where m.partition_id = p.partition_id
        and m.log_offset >= greatest(
            q.next_offset,
            (
                select min(r.first_offset)
                from pgq.segment_range as r
                where r.partition_id = p.partition_id
            )
        )
    order by m.log_offset
    limit 1
) as o on s.tip >= q.next_offset;

comment on view pgq.group_lag is
'How far each consumer group is behind, per partition; lag = tip - position.';
comment on column pgq.group_lag.topic is 'The topic.';
comment on column pgq.group_lag.consumer_group is 'The group.';
comment on column pgq.group_lag.partition is 'The partition, from 0.';
comment on column pgq.group_lag.position is
'The last offset that the group has done with; 0: none.';
comment on column pgq.group_lag.tip is 'The newest offset of the partition; 0: no message yet.';
comment on column pgq.group_lag.lag is 'How many messages the group has before it.';
comment on column pgq.group_lag.oldest_published_at is
'When the next message for the group was published; null: it has caught up.';
comment on column pgq.group_lag.leased_until is
'Until when a member has the partition; null: nobody.';

create view pgq.topic_stats
with (security_barrier) as
select
    t.topic,
    p.partition,
    f.first_offset,
    s.tip,
    s.tip - f.first_offset + 1 as messages,
    s.tip + 1 - pgq._offset_at(
        p.partition_id, pgq._clock() - interval '1 minute', f.first_offset, s.tip
    ) as published_last_minute
from pgq.topic as t
inner join pgq.partition as p on p.topic_id = t.topic_id
cross join lateral (
    select min(r.first_offset) as first_offset
    from pgq.segment_range as r
    where r.partition_id = p.partition_id
) as f
cross join lateral (
    select coalesce(
        (
            select m.log_offset
            from pgq.message as m
            where m.segment = p.segment
                and m.partition_id = p.partition_id
                and m.log_offset >= p.segment_first_offset
            order by m.log_offset desc
            limit 1
        ),
        p.segment_first_offset - 1
    ) as tip
) as s;

comment on view pgq.topic_stats is 'What each topic partition holds, and how much came in lately.';
comment on column pgq.topic_stats.topic is 'The topic.';
comment on column pgq.topic_stats.partition is 'The partition, from 0.';
comment on column pgq.topic_stats.first_offset is 'The oldest offset that is kept.';
comment on column pgq.topic_stats.tip is 'The newest offset; 0: no message yet.';
comment on column pgq.topic_stats.messages is 'How many messages are kept.';
comment on column pgq.topic_stats.published_last_minute is
'How many came in during the last minute.';

create view pgq.queue_stats
with (security_barrier) as
select
    q.queue,
    coalesce(s.ready, 0) as ready,
    coalesce(s.leased, 0) as leased,
    coalesce(s.delayed, 0) as delayed,
    coalesce(s.expired, 0) as expired,
    (select count(*) from pgq.dead_job as d where d.queue_id = q.queue_id) as dead,
    coalesce(date_part('epoch', c.moment - s.oldest), 0) as oldest_ready_seconds,
    q.paused
from pgq.queue as q
cross join lateral (select pgq._clock() as moment limit 1) as c
cross join lateral (
    select
        count(*) filter (where not e.expired and j.visible_at <= c.moment) as ready,
        count(*) filter (where j.visible_at > c.moment and j.lease_token is not null) as leased,
        count(*) filter (
            where not e.expired and j.visible_at > c.moment and j.lease_token is null
        ) as delayed,
        count(*) filter (
            where e.expired and not (j.visible_at > c.moment and j.lease_token is not null)
        ) as expired,
        min(j.visible_at) filter (where not e.expired and j.visible_at <= c.moment) as oldest
    from pgq.job as j
    cross join lateral (
        select coalesce(j.expires_at <= c.moment, false) as expired
    ) as e
    where j.queue_id = q.queue_id
) as s;

comment on view pgq.queue_stats is 'How many jobs each queue has, by state.';
comment on column pgq.queue_stats.queue is 'The queue.';
comment on column pgq.queue_stats.ready is 'Jobs that may be claimed now.';
comment on column pgq.queue_stats.leased is 'Jobs that a worker has.';
comment on column pgq.queue_stats.delayed is 'Jobs whose time has not come.';
comment on column pgq.queue_stats.expired is
'Jobs past their retention, until cleanup removes them.';
comment on column pgq.queue_stats.dead is 'Dead letters.';
comment on column pgq.queue_stats.oldest_ready_seconds is
'For how many seconds the job that is due longest has been due; 0: none is.';
comment on column pgq.queue_stats.paused is 'Whether claims get nothing for now.';

create view pgq.dead_letters
with (security_barrier) as
select
    q.queue,
    d.job_id,
    d.attempt,
    d.last_error,
    d.died_at,
    d.priority::integer as priority,
    d.label,
    m.key,
    m.headers,
    m.payload,
    m.body
from pgq.dead_job as d
inner join pgq.queue as q on q.queue_id = d.queue_id
left join pgq.message as m
    on m.segment = d.segment
    and m.partition_id = q.partition_id
    and m.log_offset = d.job_id;

comment on view pgq.dead_letters is
'Jobs that used up their attempts; pgq.redrive puts them back, pgq.purge_queue removes them.';
comment on column pgq.dead_letters.queue is 'The queue.';
comment on column pgq.dead_letters.job_id is 'The id of the job.';
comment on column pgq.dead_letters.attempt is 'How often it was delivered.';
comment on column pgq.dead_letters.last_error is
'What the last nack said, or that its lease ran out.';
comment on column pgq.dead_letters.died_at is 'When it became a dead letter.';
comment on column pgq.dead_letters.priority is '0 (first) to 9 (last).';
comment on column pgq.dead_letters.label is 'Its label; null: none.';
comment on column pgq.dead_letters.key is 'Its key; null: none.';
comment on column pgq.dead_letters.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.dead_letters.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.dead_letters.body is 'Its content as raw bytes; null when it has a payload.';

create view pgq.archived_jobs
with (security_barrier) as
select
    q.queue,
    a.job_id,
    a.outcome,
    a.attempt,
    m.published_at as enqueued_at,
    a.ended_at,
    a.result,
    a.last_error,
    a.label,
    m.key,
    m.headers,
    m.payload,
    m.body
from pgq.job_archive as a
inner join pgq.queue as q on q.queue_id = a.queue_id
left join pgq.message as m
    on m.segment = a.segment
    and m.partition_id = q.partition_id
    and m.log_offset = a.job_id;

comment on view pgq.archived_jobs is
'Finished jobs, until they are older than the retention of their queue.';
comment on column pgq.archived_jobs.queue is 'The queue.';
comment on column pgq.archived_jobs.job_id is 'The id of the job.';
comment on column pgq.archived_jobs.outcome is 'acked, expired, or what archive_job was told.';
comment on column pgq.archived_jobs.attempt is 'How often it was delivered.';
comment on column pgq.archived_jobs.enqueued_at is 'When it was enqueued.';
comment on column pgq.archived_jobs.ended_at is 'When it was finished.';
comment on column pgq.archived_jobs.result is 'What archive_job was given; null: nothing.';
comment on column pgq.archived_jobs.last_error is 'The error of the last nack before; null: none.';
comment on column pgq.archived_jobs.label is 'Its label; null: none.';
comment on column pgq.archived_jobs.key is 'Its key; null: none.';
comment on column pgq.archived_jobs.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.archived_jobs.payload is 'Its content as JSON; null when it had a body.';
comment on column pgq.archived_jobs.body is 'Its content as raw bytes; null when it had a payload.';

-- ==== sql/shared/dump_configuration.sql

-- As an extension, pgq would be dumped without its contents; this makes pg_dump take them along.
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
        order by c.oid
    loop
        perform pg_extension_config_dump(relation, '');
    end loop;
end
$dump_configuration$;

-- ==== sql/shared/privileges.sql

-- Nobody may call anything until the owner grants it.
revoke all on all tables in schema pgq from public;
revoke all on all sequences in schema pgq from public;
revoke all on all functions in schema pgq from public;
-- Whoever reads a view needs the right to the functions in it.
grant execute on function pgq._clock() to public;
grant execute on function pgq._offset_at(bigint, timestamptz, bigint, bigint) to public;
