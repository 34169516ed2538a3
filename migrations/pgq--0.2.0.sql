\echo Installing pgq 0.2.0 \set ON_ERROR_STOP on
-- generated from sql/install.sql by python/tools/build.py: edit there, not here

-- ==== sql/shared/guard.sql

-- Stop before anything is changed when a schema pgq is already there, whoever made it.
do $guard$
begin
    if to_regnamespace('pgq') is null then
        return;
    end if;
    if to_regproc('pgq.version') is not null
        and to_regproc('pgq.claim_offsets') is not null
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
-- A topic has partitions. publish locks the row of one partition, reads the last offset stored
-- there, and inserts the next ones; the lock is held until the publisher commits, so the order of
-- offsets is the order of commits and there are no gaps. Nothing is updated on that way. A consumer
-- group has one position per topic partition. The positions are a journal: claim_offsets,
-- commit_offset and seek append a row, and the newest row counts. A reader is served by
-- fetch_range.
--
-- A queue hands each job to one worker at a time. enqueue stores the payload as a message and a
-- narrow row in job that points at it; claim_job leases jobs that are due by moving visible_at
-- ahead; ack, nack and archive_job need the lease token that the claim gave out. visible_at alone
-- says when a job may be claimed: a delay, a lease, a retry and a lost worker are one mechanism. A
-- unique key is a row in unique_job, which whatever ends the job that has it removes.
--
-- A schedule is a row that knows its next tick. run_schedules, which anybody may call, locks what
-- is due, enqueues or publishes it and moves the next tick ahead, all in one transaction.
--
-- An idempotency key is noted beside what it was given with; as long as the window of its queue or
-- topic lasts, what comes again under it is answered with what was noted.
--
-- Payloads of topics and queues stand in message, which is split into leaves called segments.
-- Topics and queues that keep their messages for the same time share a storage class, and each
-- class writes to one segment. cleanup opens the next segment from time to time and truncates those
-- that nobody needs, so nothing is deleted row by row.
create schema pgq;

comment on schema pgq is
'Messaging inside PostgreSQL: topics with consumer groups, queues of leased jobs, schedules.
Every function takes named arguments; errors carry an SQLSTATE of PostgreSQL or of class MQ.';

-- ==== sql/shared/types.sql

create type pgq.cleanup_action as (
    action text,
    target text,
    amount bigint
);

comment on type pgq.cleanup_action is 'One thing that cleanup did.';
comment on column pgq.cleanup_action.action is
'What: one of the actions that the comment of cleanup lists.';
comment on column pgq.cleanup_action.target is
'To what: a queue, a group as topic/group, a write_id, a segment; for busy and more, the part of the
work.';
comment on column pgq.cleanup_action.amount is 'To how many.';

-- ==== sql/store/types.sql

create type pgq._newest_message as (
    log_offset bigint,
    published_at timestamptz
);

comment on type pgq._newest_message is 'The last message of a partition in a segment.';

create type pgq._noted_key as (
    idempotency_key text collate "C",
    noted_at timestamptz,
    job_id bigint,
    partition integer,
    log_offset bigint
);

comment on type pgq._noted_key is 'An idempotency key, and the job or message that it stands for.';

create type pgq._key_segments as (
    class_ids bigint array,
    segments integer array,
    written integer array
);

comment on type pgq._key_segments is
'Where the keys of a queue or topic stand: in these segments of these classes; new ones are written
to some of them.';

-- Flat arrays: they are read element by element.
create type pgq._key_notes as (
    segments integer array,
    leaders integer array,
    job_ids bigint array,
    partitions integer array,
    log_offsets bigint array
);

comment on type pgq._key_notes is
'What became of the keys of a batch: to which segments the new ones were written; for each place its
own number if it is new, that of the place that has the same key, or -n for the nth of those that
were found; and what these stand for.';

-- ==== sql/log/types.sql

create type pgq.topic_info as (
    topic text,
    partitions integer,
    retention interval,
    max_bytes bigint,
    notify boolean,
    created_at timestamptz,
    updated_at timestamptz,
    idempotency_window interval
);

comment on type pgq.topic_info is 'A topic and its settings.';
comment on column pgq.topic_info.topic is 'Its name.';
comment on column pgq.topic_info.partitions is 'The number of its partitions.';
comment on column pgq.topic_info.retention is
'How long a message is kept at least, but for max_bytes; null: for ever.';
comment on column pgq.topic_info.max_bytes is
'How many bytes are kept at least when the oldest messages go early; null: no limit.';
comment on column pgq.topic_info.notify is 'Whether a publish notifies the channel pgq_topic.';
comment on column pgq.topic_info.created_at is 'When it was made.';
comment on column pgq.topic_info.updated_at is 'When its settings last changed.';
comment on column pgq.topic_info.idempotency_window is
'How long an idempotency key stands for the message that it was given with.';

create type pgq.group_info as (
    topic text,
    consumer_group text,
    out_of_range text,
    created_at timestamptz,
    updated_at timestamptz
);

comment on type pgq.group_info is 'A consumer group and its settings.';
comment on column pgq.group_info.topic is 'The topic that it reads.';
comment on column pgq.group_info.consumer_group is 'Its name.';
comment on column pgq.group_info.out_of_range is
'What happens when retention removed messages it has not read: error or skip.';
comment on column pgq.group_info.created_at is 'When it was made.';
comment on column pgq.group_info.updated_at is 'When its settings last changed.';

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

create type pgq.publish_result as (
    partition integer,
    log_offset bigint,
    duplicate boolean
);

comment on type pgq.publish_result is 'Where a message stands that was published, now or before.';
comment on column pgq.publish_result.partition is 'The number of its partition, from 0.';
comment on column pgq.publish_result.log_offset is
'Its offset in the partition, from 1; null: it has none yet.';
comment on column pgq.publish_result.duplicate is
'Whether it had been published before, with the same idempotency key, and stands there since then.';

create type pgq.publish_batch_result as (
    partition integer,
    first_offset bigint,
    last_offset bigint,
    duplicate boolean
);

comment on type pgq.publish_batch_result is
'Where messages of a batch stand that follow each other in one partition.';
comment on column pgq.publish_batch_result.partition is 'The number of the partition, from 0.';
comment on column pgq.publish_batch_result.first_offset is
'The offset of the first one; null: they have none yet.';
comment on column pgq.publish_batch_result.last_offset is
'The offset of the last one; null: they have none yet.';
comment on column pgq.publish_batch_result.duplicate is
'Whether they had been published before, with the same idempotency keys, and stand there since
then.';

create type pgq.seek_result as (
    partition integer,
    position bigint
);

comment on type pgq.seek_result is 'Where a consumer group reads next in a partition.';
comment on column pgq.seek_result.partition is 'The number of the partition, from 0.';
comment on column pgq.seek_result.position is 'The offset that the group reads next.';

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
    leased_until timestamptz,
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
'What commit_offset, extend_poll and release_poll ask for.';
comment on column pgq.leased_message.leased_until is
'Until when the caller has the partition, by the clock of the server.';
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
    segment_until timestamptz,
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
    last_offset bigint
);

comment on type pgq._group_state is
'The state of a group in a partition whose row the caller has locked.';

create type pgq._claim_state as (
    partition integer,
    partition_id bigint,
    first_offset bigint,
    last_offset bigint,
    segment integer,
    lease_token uuid,
    leased_until timestamptz
);

comment on type pgq._claim_state is
'What a member of a group has just taken, and where it is stored.';

-- ==== sql/queue/types.sql

create type pgq.queue_info as (
    queue text,
    lease interval,
    max_attempts integer,
    delay interval,
    job_ttl interval,
    retention interval,
    backoff interval,
    backoff_max interval,
    backoff_jitter double precision,
    archive boolean,
    notify boolean,
    paused boolean,
    created_at timestamptz,
    updated_at timestamptz,
    idempotency_window interval,
    unique_until text,
    max_leased integer,
    rate_limit integer,
    rate_interval interval,
    rate_burst integer,
    max_unfinished integer
);

comment on type pgq.queue_info is 'A queue and its settings.';
comment on column pgq.queue_info.queue is 'Its name.';
comment on column pgq.queue_info.lease is
'How long a worker has a job unless the claim says otherwise.';
comment on column pgq.queue_info.max_attempts is 'Attempts before a job is dead; null: no limit.';
comment on column pgq.queue_info.delay is 'From enqueue to the first attempt.';
comment on column pgq.queue_info.job_ttl is
'From enqueue until an unfinished job expires; null: never.';
comment on column pgq.queue_info.retention is
'How long finished jobs and dead letters are kept; null: for ever.';
comment on column pgq.queue_info.backoff is
'Delay before the first retry; each further one doubles it.';
comment on column pgq.queue_info.backoff_max is 'The longest delay before a retry.';
comment on column pgq.queue_info.backoff_jitter is
'Up to this share of the delay is added at random.';
comment on column pgq.queue_info.archive is
'Whether a job that ack finishes, or that expires or is cancelled, is noted among the archived
ones.';
comment on column pgq.queue_info.notify is 'Whether an enqueue notifies the channel pgq_queue.';
comment on column pgq.queue_info.paused is 'Whether claims get nothing for now.';
comment on column pgq.queue_info.created_at is 'When it was made.';
comment on column pgq.queue_info.updated_at is 'When its settings last changed.';
comment on column pgq.queue_info.idempotency_window is
'How long an idempotency key stands for the job that it was given with.';
comment on column pgq.queue_info.unique_until is
'How long a job keeps others of its unique_key out: until it is finished, claimed or removed.';
comment on column pgq.queue_info.max_leased is
'The most jobs that are leased at one time; null: no limit.';
comment on column pgq.queue_info.rate_limit is
'The most jobs that are handed out per rate_interval; null: no limit.';
comment on column pgq.queue_info.rate_interval is 'See rate_limit; null: there is none.';
comment on column pgq.queue_info.rate_burst is
'The most jobs that are handed out at once after a pause; null: there is no rate_limit.';
comment on column pgq.queue_info.max_unfinished is
'With how many unfinished jobs enqueue fails; null: no limit.';

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
'What ack, nack, release_job, reject_job, archive_job and extend_lease ask for; one token for all
jobs of a claim.';
comment on column pgq.claimed_job.attempt is 'Which attempt this is, from 1.';
comment on column pgq.claimed_job.leased_until is 'When another worker may get it.';
comment on column pgq.claimed_job.enqueued_at is 'When it was enqueued.';
comment on column pgq.claimed_job.priority is '0 (first) to 9 (last).';
comment on column pgq.claimed_job.key is 'Its key; null: none.';
comment on column pgq.claimed_job.label is 'Its label; null: none.';
comment on column pgq.claimed_job.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.claimed_job.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.claimed_job.body is 'Its content as raw bytes; null when it has a payload.';

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

comment on type pgq.job_info is 'A job that is not finished, or a dead letter.';
comment on column pgq.job_info.job_id is 'Its id.';
comment on column pgq.job_info.queue is 'Its queue.';
comment on column pgq.job_info.state is
'ready, leased, delayed, expired or dead; see queue_stats.';
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

create type pgq.enqueue_result as (
    job_id bigint,
    duplicate boolean
);

comment on type pgq.enqueue_result is 'A job that was enqueued, now or before.';
comment on column pgq.enqueue_result.job_id is 'Its id.';
comment on column pgq.enqueue_result.duplicate is
'Whether nothing was added: this job had been enqueued before.';

create type pgq.effect_state as (
    state text,
    result jsonb,
    attempt integer,
    begun_at timestamptz
);

comment on type pgq.effect_state is 'What has become of an effect of a job.';
comment on column pgq.effect_state.state is
'begun: run it now; finished: it has happened; interrupted: it was begun before, and nobody knows
whether it has happened.';
comment on column pgq.effect_state.result is 'What finish_effect was given; null: nothing.';
comment on column pgq.effect_state.attempt is 'Which attempt of the job began it.';
comment on column pgq.effect_state.begun_at is 'When that was.';

-- ==== sql/bulk/types.sql

create type pgq.bulk_write_state as (
    write_id uuid,
    messages bigint,
    committed_at timestamptz,
    duplicate boolean
);

comment on type pgq.bulk_write_state is 'Where a bulk write stands.';
comment on column pgq.bulk_write_state.write_id is
'The id that write_chunk, commit_write and abort_write take.';
comment on column pgq.bulk_write_state.messages is
'How many messages or jobs it wrote; null: not committed.';
comment on column pgq.bulk_write_state.committed_at is 'When it was committed; null: it was not.';
comment on column pgq.bulk_write_state.duplicate is
'Whether it was committed before this call, which then changed nothing.';

create type pgq._write_target as (
    bulk_write_id bigint,
    atomic boolean,
    attempt integer,
    topic_id bigint,
    topic text,
    partitions integer,
    queue_id bigint,
    queue text,
    job_ttl interval
);

comment on type pgq._write_target is 'What write_chunk has to know of the write it adds to.';

-- ==== sql/schedule/types.sql

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

create type pgq.schedule_run as (
    schedule text,
    tick_at timestamptz,
    job_id bigint,
    partition integer,
    log_offset bigint,
    error text
);

comment on type pgq.schedule_run is 'A tick that run_schedules wrote, or could not write.';
comment on column pgq.schedule_run.schedule is 'Whose tick it is.';
comment on column pgq.schedule_run.tick_at is
'The time of the tick, which is in the header scheduled_at.';
comment on column pgq.schedule_run.job_id is 'The job that was enqueued; null: none was.';
comment on column pgq.schedule_run.partition is
'The partition that it was published to; null: it was not.';
comment on column pgq.schedule_run.log_offset is 'Its offset there; null: it was not published.';
comment on column pgq.schedule_run.error is 'Why nothing was written; null: it was.';

create type pgq._cron_times as (
    minutes integer array,
    hours integer array,
    days integer array,
    months integer array,
    weekdays integer array,
    either_day boolean,
    real_time boolean
);

comment on type pgq._cron_times is
'What a cron expression says: numbers in ascending order, Sunday is 0.
either_day: one of day and weekday is enough. real_time: hours that come twice count twice.';

-- ==== sql/store/tables.sql

create table pgq.storage_class (
    storage_class_id bigint generated always as identity primary key,
    retention interval,
    max_bytes bigint,
    owner_id bigint,
    segment integer,
    for_keys boolean not null default false
);

-- One class per retention; a topic with a size limit has a class of its own. Two retentions may be
-- equal and yet not the same (a month, 30 days), so they are compared by what is stored of them.
create unique index storage_class_key on pgq.storage_class
(coalesce(interval_send(retention), ''::bytea), coalesce(owner_id, 0));

comment on table pgq.storage_class is
'What is kept for the same time is stored together; each class writes to one segment.';
comment on column pgq.storage_class.retention is 'How long messages are kept; null: for ever.';
comment on column pgq.storage_class.max_bytes is 'Size limit of the class, in bytes; null: none.';
comment on column pgq.storage_class.owner_id is
'The topic that has this class for itself; null: shared.';
comment on column pgq.storage_class.segment is
'The open segment, where new messages go; null: the class is out of use. Whoever puts something into
that segment locks this row, and opening another one changes it.';
comment on column pgq.storage_class.for_keys is
'Whether idempotency keys were noted in it: then it stays, as long as there is a window of this
length.';

create table pgq.leaf (
    leaf integer primary key,
    free boolean not null
);

comment on table pgq.leaf is 'The leaves of message, job_archive and idempotency that there are.
A dump of the extension leaves it out: an installation makes its own, and segment says which of them
are in use.';
comment on column pgq.leaf.leaf is 'Its number: message_N, job_archive_N and idempotency_N.';
comment on column pgq.leaf.free is 'Whether no segment uses it; it is empty then.';

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

comment on table pgq.segment is 'The leaves that are in use, and by which storage class.';
comment on column pgq.segment.segment is 'The number of the leaf.';
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
-- Where all tables are published, what has no key could not be changed.
alter table pgq.former_window replica identity full;

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

create table pgq.leftover (
    partition_id bigint not null,
    segment integer not null,
    first_offset bigint not null,
    last_offset bigint not null,
    queue_id bigint,
    remove_at timestamptz not null,
    noted_xid xid8,
    horizon xid8,
    primary key (partition_id, segment, first_offset)
);

create index leftover_due on pgq.leftover (remove_at);

comment on table pgq.leftover is
'What was stored without a retention by a topic or queue that has one now, or was dropped. Its
segment may never be truncated, so cleanup deletes these messages.';
comment on column pgq.leftover.partition_id is 'Whose messages they are.';
comment on column pgq.leftover.segment is 'The segment that holds them.';
comment on column pgq.leftover.first_offset is 'The first of them.';
comment on column pgq.leftover.last_offset is 'The last of them.';
comment on column pgq.leftover.queue_id is 'The queue whose jobs they are; null: a topic''s.';
comment on column pgq.leftover.remove_at is 'From when on they are to go.';
comment on column pgq.leftover.noted_xid is
'The transaction that noted it, where others could still store more of them; null: nobody could.';
comment on column pgq.leftover.horizon is
'From this transaction on nobody could; null: cleanup has not found out yet.';

-- Partitions of topics and queues draw their ids from here, so that message needs no second key.
create sequence pgq.partition_id as bigint;

comment on sequence pgq.partition_id is
'Ids of topic partitions and of queues in the message store.';

-- ==== sql/log/tables.sql

create table pgq.topic (
    topic_id bigint generated always as identity primary key,
    topic text collate "C" not null unique,
    partitions integer not null,
    storage_class_id bigint not null references pgq.storage_class (storage_class_id),
    notify boolean not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    idempotency_window interval not null default '1 day'
);

comment on table pgq.topic is 'A log of messages in one or more partitions.';
comment on column pgq.topic.topic is 'Its name.';
comment on column pgq.topic.partitions is
'The number of its partitions, which are numbered from 0.';
comment on column pgq.topic.storage_class_id is 'How long its messages are kept.';
comment on column pgq.topic.notify is 'Whether a publish notifies the channel pgq_topic.';
comment on column pgq.topic.created_at is 'When it was made.';
comment on column pgq.topic.updated_at is 'When its settings last changed.';
comment on column pgq.topic.idempotency_window is
'How long an idempotency key stands for the message that it was given with.';

-- What a publisher needs of the topic stands here as well, so that it finds, reads and locks one
-- row by one index.
create table pgq.partition (
    topic_id bigint not null references pgq.topic (topic_id) on delete cascade,
    partition integer not null,
    partition_id bigint not null unique,
    topic text collate "C" not null,
    partitions integer not null,
    ring integer not null,
    notify boolean not null,
    segment integer not null,
    segment_first_offset bigint not null,
    segment_entered_at timestamptz not null,
    segment_until timestamptz not null,
    primary key (topic_id, partition),
    unique (topic, partition)
);

create index partition_ring on pgq.partition (topic, ring);

comment on table pgq.partition is
'One row per topic partition; a publisher locks it until commit, and does not change it.';
comment on column pgq.partition.partition_id is 'Its id in the message store.';
comment on column pgq.partition.topic is 'The name of its topic.';
comment on column pgq.partition.partitions is 'The number of partitions that its topic has.';
comment on column pgq.partition.ring is
'Where it stands between 0 and 1023. Whoever may take any partition takes the one at or below a
number of its own.';
comment on column pgq.partition.notify is 'Whether a publish notifies the channel pgq_topic.';
comment on column pgq.partition.segment is 'The segment that its next message goes to.';
comment on column pgq.partition.segment_first_offset is
'The first offset that this segment has or will have.';
comment on column pgq.partition.segment_entered_at is
'No message in this segment is published earlier.';
comment on column pgq.partition.segment_until is
'From then on a publisher looks whether the storage class writes to another segment by now.';

create table pgq.segment_range (
    partition_id bigint not null references pgq.partition (partition_id) on delete cascade,
    first_offset bigint not null,
    segment integer not null,
    stored_partition_id bigint not null,
    shift bigint not null default 0,
    published_at timestamptz,
    primary key (partition_id, first_offset)
);

comment on table pgq.segment_range is
'Where the messages of a partition are stored: from first_offset up to the next row''s.
The message of an offset is the row of stored_partition_id at log_offset = offset - shift in that
segment.';
comment on column pgq.segment_range.first_offset is 'The first offset stored in the segment.';
comment on column pgq.segment_range.segment is 'The segment that holds them.';
comment on column pgq.segment_range.stored_partition_id is
'Under which partition_id they are stored: the partition''s own, or that of a run of messages that
were stored before their place in the log was known.';
comment on column pgq.segment_range.shift is
'What is added to the log_offset of a stored row to get the offset; 0 in what a partition stored
itself.';
comment on column pgq.segment_range.published_at is
'When all of them were published; null: each stored row says when.';

create table pgq.consumer_group (
    group_id bigint generated always as identity primary key,
    topic_id bigint not null references pgq.topic (topic_id) on delete cascade,
    consumer_group text collate "C" not null,
    out_of_range text not null check (out_of_range in ('error', 'skip')),
    created_at timestamptz not null,
    updated_at timestamptz not null,
    unique (topic_id, consumer_group)
);

comment on table pgq.consumer_group is
'Readers of one topic that share one position per partition.';
comment on column pgq.consumer_group.consumer_group is 'Its name, unique within the topic.';
comment on column pgq.consumer_group.out_of_range is
'What happens when retention removed messages the group has not read: error, or skip them.';
comment on column pgq.consumer_group.created_at is 'When it was made.';
comment on column pgq.consumer_group.updated_at is 'When its settings last changed.';

-- As in partition, a member finds one row by one index.
create table pgq.group_partition (
    group_id bigint not null references pgq.consumer_group (group_id) on delete cascade,
    partition integer not null,
    topic text collate "C" not null,
    consumer_group text collate "C" not null,
    partition_id bigint not null,
    out_of_range text not null,
    trimmed_seq bigint not null default 0,
    primary key (group_id, partition),
    unique (topic, consumer_group, partition),
    unique (partition_id, consumer_group)
);

comment on table pgq.group_partition is
'One row per group and partition; a member locks it while it moves the position.';
comment on column pgq.group_partition.partition is 'The number of the partition.';
comment on column pgq.group_partition.topic is 'The name of the topic.';
comment on column pgq.group_partition.consumer_group is 'The name of the group.';
comment on column pgq.group_partition.partition_id is 'The id of the partition.';
comment on column pgq.group_partition.out_of_range is 'What the group says.';
comment on column pgq.group_partition.trimmed_seq is
'Rows of the journal below this seq were removed. Trimming changes this row, so that a member whose
snapshot is older cannot lock it.';

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

create table pgq.view_key (
    key uuid not null
);

-- A key of one row would be slower to look up than the row. Why it is needed: see bulk_producer.
alter table pgq.view_key replica identity full;

insert into pgq.view_key (key)
values (gen_random_uuid());

comment on table pgq.view_key is
'What the views show to the functions that they call. Who reads a view may call these, but does not
know the key.';

-- ==== sql/queue/tables.sql

create table pgq.queue (
    queue_id bigint generated always as identity primary key,
    queue text collate "C" not null unique,
    partition_id bigint not null unique,
    storage_class_id bigint not null references pgq.storage_class (storage_class_id),
    segment integer not null,
    lease interval not null,
    max_attempts integer,
    delay interval not null,
    job_ttl interval,
    retention interval,
    backoff interval not null,
    backoff_max interval not null,
    backoff_jitter double precision not null,
    archive boolean not null,
    notify boolean not null,
    paused boolean not null default false,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    idempotency_window interval not null default '1 day',
    unique_until text collate "C" not null default 'finished',
    max_leased integer,
    rate_limit integer,
    rate_interval interval,
    rate_burst integer,
    max_unfinished integer
);

comment on table pgq.queue is 'A queue of jobs and its settings.';
comment on column pgq.queue.queue is 'Its name.';
comment on column pgq.queue.partition_id is 'Its id in the message store.';
comment on column pgq.queue.storage_class_id is 'Where its payloads are stored.';
comment on column pgq.queue.segment is 'The open segment of its class: where new payloads go.';
comment on column pgq.queue.lease is 'How long a worker has a job unless the claim says otherwise.';
comment on column pgq.queue.max_attempts is 'Attempts before a job is dead; null: no limit.';
comment on column pgq.queue.delay is 'From enqueue to the first attempt.';
comment on column pgq.queue.job_ttl is
'From enqueue until an unfinished job expires; null: never.';
comment on column pgq.queue.retention is
'How long finished jobs and dead letters are kept; null: for ever.';
comment on column pgq.queue.backoff is 'Delay before the first retry; each further one doubles it.';
comment on column pgq.queue.backoff_max is 'The longest delay before a retry.';
comment on column pgq.queue.backoff_jitter is 'Up to this share of the delay is added at random.';
comment on column pgq.queue.archive is
'Whether a job that ack finishes, or that expires or is cancelled, is noted in job_archive.';
comment on column pgq.queue.notify is 'Whether an enqueue notifies the channel pgq_queue.';
comment on column pgq.queue.paused is 'Whether claims get nothing for now.';
comment on column pgq.queue.created_at is 'When it was made.';
comment on column pgq.queue.updated_at is 'When its settings last changed.';
comment on column pgq.queue.idempotency_window is
'How long an idempotency key stands for the job that it was given with.';
comment on column pgq.queue.unique_until is
'How long a job keeps others of its unique key out: until it is finished, claimed or removed.';
comment on column pgq.queue.max_leased is
'The most jobs that are leased at one time; null: no limit.';
comment on column pgq.queue.rate_limit is
'The most jobs that are handed out per rate_interval; null: no limit.';
comment on column pgq.queue.rate_interval is 'See rate_limit; null: there is none.';
comment on column pgq.queue.rate_burst is
'The most jobs that are handed out at once after a pause; null: there is no rate_limit.';
comment on column pgq.queue.max_unfinished is
'With how many unfinished jobs enqueue fails; null: no limit.';

create table pgq.claim_lock (
    queue_id bigint primary key references pgq.queue (queue_id) on delete cascade,
    counted_xid xid8 not null
);

comment on table pgq.claim_lock is
'One row per queue that limits its claims, or did: locked by each of them.';
comment on column pgq.claim_lock.counted_xid is
'Which transaction switched max_leased on last: what was leased before has to be found first.';

-- Not one row that each claim updates: while an old snapshot is held, each would have to pass all
-- its former versions.
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

create table pgq.lowered_queue (
    queue_id bigint primary key references pgq.queue (queue_id) on delete cascade,
    lowered_xid xid8 not null,
    horizon xid8,
    marked_id bigint not null,
    missed_id bigint
);

comment on table pgq.lowered_queue is
'Queues whose max_attempts was lowered, until cleanup has marked their jobs that have had as many.';
comment on column pgq.lowered_queue.lowered_xid is
'By which transaction; claims that were in progress then may know the limit before.';
comment on column pgq.lowered_queue.horizon is
'From this transaction on none knows it; null: cleanup has not found out yet.';
comment on column pgq.lowered_queue.marked_id is 'Up to which job_id it is done.';
comment on column pgq.lowered_queue.missed_id is
'The first job_id that somebody had locked meanwhile: it begins there again; null: none.';

create sequence pgq.job_id as bigint cache 1;

comment on sequence pgq.job_id is 'Ids of jobs, unique over all queues.';

-- A claim deletes the row and inserts it anew: whoever meant to claim it by an older snapshot then
-- finds it gone, and locks nothing. After an update it would lock the new version before it looks
-- whether that is due, and keep this lock to the end of its transaction.
create table pgq.job (
    job_id bigint primary key,
    queue_id bigint not null,
    partition_id bigint not null,
    log_offset bigint not null,
    expires_at timestamptz,
    visible_at timestamptz not null,
    segment integer not null,
    attempt integer not null,
    priority smallint not null,
    last_attempt boolean not null default false,
    lease_token uuid,
    label text collate "C",
    last_error text,
    unique_key text collate "C",
    max_attempts integer
)
with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create index job_claim on pgq.job (queue_id, priority, visible_at, job_id);
-- The negative id is in no other index: so a claim by label cannot but use this one, where an old
-- or a missing statistic might lead it along all jobs of the queue. It stands before the label, so
-- that the labels of a queue are found one after the other.
create index job_label on pgq.job ((-queue_id), label, priority, visible_at, job_id)
where label is not null;
-- Those on their last attempt, who become dead letters when their worker is lost.
create index job_last on pgq.job (visible_at) where last_attempt;

comment on table pgq.job is 'Jobs not yet finished, narrow: the payload is stored in message.';
comment on column pgq.job.job_id is 'Its id.';
comment on column pgq.job.partition_id is
'Under which partition_id its payload is stored: the queue''s, or that of a topic partition.';
comment on column pgq.job.log_offset is
'The offset of its payload there; in the queue''s own it is the job_id.';
comment on column pgq.job.expires_at is 'From then on it is never claimed; null: no such time.';
comment on column pgq.job.segment is 'The segment that holds its payload.';
comment on column pgq.job.priority is '0 (first) to 9 (last).';
comment on column pgq.job.attempt is 'How many attempts it had, with the one under way.';
comment on column pgq.job.last_attempt is
'Whether this attempt is the last one that was allowed when it was claimed.';
comment on column pgq.job.visible_at is 'From when on it may be claimed.';
comment on column pgq.job.lease_token is
'The token of the claim that has it; null: never claimed, or given back.';
comment on column pgq.job.label is 'What a claim may ask for; null: no label.';
comment on column pgq.job.last_error is 'The error that the last nack gave.';
comment on column pgq.job.unique_key is
'The key of which unique_job allows one job in its queue; null: none.';
comment on column pgq.job.max_attempts is
'Attempts before it is dead; null: what its queue says.';

create table pgq.dead_job (
    job_id bigint primary key,
    queue_id bigint not null,
    partition_id bigint not null,
    log_offset bigint not null,
    segment integer not null,
    priority smallint not null,
    attempt integer not null,
    died_at timestamptz not null,
    label text collate "C",
    last_error text,
    unique_key text collate "C",
    max_attempts integer
);

create index dead_job_queue on pgq.dead_job (queue_id, died_at);

comment on table pgq.dead_job is
'Jobs that were given up after their last attempt, until redriven, purged or too old.';
comment on column pgq.dead_job.partition_id is 'Where its payload is stored; see job.';
comment on column pgq.dead_job.log_offset is 'Where its payload is stored; see job.';
comment on column pgq.dead_job.attempt is 'How many attempts it had.';
comment on column pgq.dead_job.died_at is 'When it was moved here.';
comment on column pgq.dead_job.last_error is
'What the last nack said; if the lease of the last attempt ran out, that in a line of its own.';
comment on column pgq.dead_job.unique_key is
'The key that it had as a job; it takes it again when it is redriven.';
comment on column pgq.dead_job.max_attempts is 'See job.';

-- Whoever ends a job, or takes its key away, holds the row of the job: so the row here is locked by
-- nobody else, and nobody waits for it but an enqueue that wants the key.
create table pgq.unique_job (
    queue_id bigint not null,
    unique_key text collate "C" not null,
    job_id bigint not null,
    primary key (queue_id, unique_key)
);

create index unique_job_id on pgq.unique_job (job_id);

comment on table pgq.unique_job is
'Which job has a unique key of a queue, and keeps others of that key out.';
comment on column pgq.unique_job.unique_key is 'The key.';
comment on column pgq.unique_job.job_id is
'The job; a dead letter only where the queue says unique_until removed.';

create table pgq.job_archive (
    job_id bigint not null,
    queue_id bigint not null,
    ended_at timestamptz not null,
    segment integer not null,
    attempt integer not null,
    outcome text not null,
    label text collate "C",
    result jsonb,
    last_error text,
    partition_id bigint,
    log_offset bigint
)
partition by list (segment);

comment on table pgq.job_archive is
'Jobs that were finished or cancelled or have expired; a leaf is truncated together with the segment
that holds the payloads.';
comment on column pgq.job_archive.ended_at is 'When it was finished or cancelled, or expired.';
comment on column pgq.job_archive.outcome is
'acked, expired, cancelled, or what archive_job was told.';
comment on column pgq.job_archive.result is 'What archive_job was given; null: nothing.';
comment on column pgq.job_archive.last_error is
'The error of the last nack before it was finished.';
comment on column pgq.job_archive.partition_id is
'Under which partition_id its payload is stored; null: the queue''s own.';
comment on column pgq.job_archive.log_offset is 'The offset of its payload; null: the job_id.';

create table pgq.queue_floor_lock (
    queue_id bigint primary key references pgq.queue (queue_id) on delete cascade,
    swept_label text collate "C"
);

comment on table pgq.queue_floor_lock is
'One row per queue, locked by the claim that raises its floor.';
comment on column pgq.queue_floor_lock.swept_label is
'The label whose floors cleanup looked at last; null: it begins anew.';

create table pgq.queue_floor (
    queue_id bigint not null,
    label text collate "C" not null default '',
    seq bigint not null,
    epoch bigint not null,
    floor_times timestamptz[] not null,
    floor_ids bigint[] not null,
    recorded_at timestamptz not null,
    safe_at timestamptz not null,
    candidate_at timestamptz not null,
    candidate_xid xid8 not null,
    primary key (queue_id, label, seq)
);

comment on table pgq.queue_floor is
'Below which visible_at and job_id no claimable job exists, as a journal.
The row with the highest seq counts.';
comment on column pgq.queue_floor.label is
'For which claims: empty: for all; = and a label: for those that ask for it, which have floors of
their own only where they may stand above those of all.';
comment on column pgq.queue_floor.seq is 'Rises by one with every change.';
comment on column pgq.queue_floor.epoch is
'Rises whenever the floors of all start again or go down, since the clock was set back. The floors
of a label count only in the epoch in which they were written.';
comment on column pgq.queue_floor.floor_times is 'The floor of each priority, 0 to 9: visible_at.';
comment on column pgq.queue_floor.floor_ids is 'The job_id among jobs of that visible_at.';
comment on column pgq.queue_floor.recorded_at is 'When this row was written.';
comment on column pgq.queue_floor.safe_at is
'Below which no transaction writes a visible_at any more: the floors may rise up to here.';
comment on column pgq.queue_floor.candidate_at is 'What safe_at becomes next.';
comment on column pgq.queue_floor.candidate_xid is
'It does so once every transaction below this one has ended.';

-- Those of jobs that have ended stay until cleanup finds them: what ends a job does not know them.
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

create sequence pgq.effect_walk as bigint minvalue 0;

comment on sequence pgq.effect_walk is
'Up to which job cleanup has looked for effects of jobs that have ended; it goes round and round.';

-- ==== sql/bulk/tables.sql

-- No foreign keys: drop_topic would wait for rows here while it holds partitions, and the writers
-- wait for these the other way round. cleanup removes what was dropped.
create table pgq.bulk_write (
    bulk_write_id bigint generated always as identity primary key,
    topic_id bigint,
    queue_id bigint,
    producer text collate "C",
    seq bigint,
    atomic boolean not null,
    write_id uuid not null unique,
    attempt integer not null default 1,
    begun_at timestamptz not null,
    expires_at timestamptz not null,
    committed_at timestamptz,
    messages bigint,
    check (num_nonnulls(topic_id, queue_id) = 1),
    check (num_nonnulls(producer, seq) <> 1)
);

create unique index bulk_write_seq on pgq.bulk_write
(coalesce(topic_id, 0), coalesce(queue_id, 0), producer, seq);
-- Where cleanup looks, however many writes are remembered.
create index bulk_write_open on pgq.bulk_write (expires_at) where committed_at is null;
create index bulk_write_nameless on pgq.bulk_write (committed_at) where producer is null;

comment on table pgq.bulk_write is
'Writes of many writers: open until the commit, then kept to know them when they are repeated.';
comment on column pgq.bulk_write.topic_id is 'The topic that is written to; null: a queue.';
comment on column pgq.bulk_write.queue_id is 'The queue that is written to; null: a topic.';
comment on column pgq.bulk_write.producer is
'Who writes; with seq it names the write. Null: it has no name, and is new each time.';
comment on column pgq.bulk_write.seq is 'The number that the producer gave the write.';
comment on column pgq.bulk_write.atomic is
'Whether chunks are staged until the commit, or published as they come.';
comment on column pgq.bulk_write.write_id is
'The id that writers pass; each start of the write makes a new one.';
comment on column pgq.bulk_write.attempt is 'How often it was started.';
comment on column pgq.bulk_write.begun_at is 'When it was started, the last time.';
comment on column pgq.bulk_write.expires_at is
'From when on cleanup forgets it, if it is still open.';
comment on column pgq.bulk_write.committed_at is 'When it was committed; null: it is open.';
comment on column pgq.bulk_write.messages is 'How many messages or jobs it wrote.';

create table pgq.bulk_producer (
    producer text collate "C" not null,
    topic_id bigint,
    queue_id bigint,
    forgotten_seq bigint,
    check (num_nonnulls(topic_id, queue_id) = 1)
);

create unique index bulk_producer_key on pgq.bulk_producer
(coalesce(topic_id, 0), coalesce(queue_id, 0), producer);
-- Where all tables are published, what has no key could not be changed.
alter table pgq.bulk_producer replica identity full;

comment on table pgq.bulk_producer is
'What is left of the writes that commit_write forgot, because their producer made newer ones.';
comment on column pgq.bulk_producer.topic_id is 'The topic that it writes to; null: a queue.';
comment on column pgq.bulk_producer.queue_id is 'The queue that it writes to; null: a topic.';
comment on column pgq.bulk_producer.forgotten_seq is
'The highest number of a write that was forgotten; null: none was.';

-- What is staged is written a second time when it is published, so the first time goes without
-- write-ahead log. A crash or a failover empties these tables, the mark of the write is gone then,
-- and it has to be started again: what some tasks staged is never taken for what all did.
--
-- Chunks lock the mark for key share until their transaction ends, and whoever removes it locks it
-- for update. So commit_write waits for chunks that are open and counts them, one that comes later
-- finds no mark or, in an old snapshot, fails with 40001, and as long as a row is staged there is
-- the mark of its write.
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
    messages integer not null,
    payloads jsonb[],
    keys text[],
    headers jsonb[],
    partition integer,
    delay interval,
    priority integer,
    labels text[],
    bodies bytea[],
    lengths integer[],
    starts integer[],
    packed_bodies bytea,
    primary key (write_id, task, chunk)
);

-- Chunks are written and read whole, and once: compressing them costs more than it saves.
alter table pgq.staged_chunk
alter column payloads set storage external,
alter column keys set storage external,
alter column headers set storage external,
alter column labels set storage external,
alter column bodies set storage external,
alter column lengths set storage external,
alter column starts set storage external,
alter column packed_bodies set storage external;

comment on table pgq.staged_chunk is
'Messages of atomic writes until these are committed; not replicated, and empty after a crash.';
comment on column pgq.staged_chunk.chunk is 'The number of the chunk within its task.';
comment on column pgq.staged_chunk.messages is 'How many messages it has.';
comment on column pgq.staged_chunk.payloads is 'The contents as JSON; null: they are bytes.';
comment on column pgq.staged_chunk.keys is 'The key of each message; null: no keys.';
comment on column pgq.staged_chunk.headers is 'The headers of each message; null: no headers.';
comment on column pgq.staged_chunk.partition is 'The partition to publish to; null: see publish.';
comment on column pgq.staged_chunk.delay is 'The delay of jobs; null: the queue''s.';
comment on column pgq.staged_chunk.priority is 'The priority of jobs; null: 0.';
comment on column pgq.staged_chunk.labels is 'The label of each job; null: no labels.';
comment on column pgq.staged_chunk.bodies is
'The contents as raw bytes, each by itself; null: see payloads and packed_bodies.';
comment on column pgq.staged_chunk.lengths is 'The length of each of the packed bodies, in bytes.';
comment on column pgq.staged_chunk.starts is 'Where each of the packed bodies begins, from 1.';
comment on column pgq.staged_chunk.packed_bodies is
'The contents as raw bytes, one after the other; null: see payloads and bodies.';

-- The same for writes that are not atomic. It belongs to the write and not to one attempt:
-- commit_write waits for open chunks of earlier attempts as well, since these will be published.
create table pgq.published_write (
    bulk_write_id bigint primary key
);

comment on table pgq.published_write is
'Marks the writes that are open and not atomic: chunks lock it, commit_write removes it.';

-- No foreign key: cleanup removes many chunks in several calls, and their write first.
create table pgq.published_chunk (
    bulk_write_id bigint not null,
    task integer not null,
    chunk integer not null,
    messages integer not null,
    digest bigint not null,
    attempt integer not null,
    primary key (bulk_write_id, task, chunk)
);

comment on table pgq.published_chunk is
'Chunks of writes that are not atomic, until the commit: a chunk that comes again is left out.';
comment on column pgq.published_chunk.chunk is 'The number of the chunk within its task.';
comment on column pgq.published_chunk.messages is 'How many messages it had.';
comment on column pgq.published_chunk.attempt is 'The newest attempt of the write that wrote it.';
comment on column pgq.published_chunk.digest is
'A hash of all its arguments: another hash shows that a repeated task made another chunk.';

-- ==== sql/schedule/tables.sql

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
select '0.2.0'
$$;

comment on function pgq.version() is
'The version of pgq that this database has.';

-- ==== sql/shared/_give_back_grant.sql

create function pgq._give_back_grant()
returns trigger
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    begin
        execute new.statement;
    exception
        when undefined_function or undefined_table or undefined_column then
            -- It is gone in the version that was reached in the end.
            null;
    end;

    delete from pgq.kept_grant as k
    where k.statement = new.statement;

    return null;
end
$$;

comment on function pgq._give_back_grant() is
'Grants what an upgrade noted in kept_grant.';

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
        raise exception 'argument "%" must be a valid name', _check_name.argument
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
        raise exception 'argument "%" must be from % to %',
            _check_count.argument, _check_count.lowest, _check_count.highest
            using errcode = '22023',
                detail = format('Given: %s.', _check_count.number);
    end if;
end
$$;

comment on function pgq._check_count(text, bigint, bigint, bigint) is
'Refuses a number that is null (22004) or outside the bounds (22023).';

-- ==== sql/shared/_check_read_committed.sql

create function pgq._check_read_committed(function_name text)
returns void
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
begin
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        raise exception '% needs READ COMMITTED', _check_read_committed.function_name
            using errcode = '25001',
                hint = 'Call it in a transaction of that isolation level.';
    end if;
end
$$;

comment on function pgq._check_read_committed(text) is
'Raises 25001 above READ COMMITTED: an old snapshot does not show all that the function is for.';

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
    -- Months, days and hours are added to a date one after the other, so a length whose parts have
    -- different signs may lead back although it compares as more than nothing.
    if least(
        date_part('year', _check_interval.length) * 12 + date_part('month', _check_interval.length),
        date_part('day', _check_interval.length),
        date_part('hour', _check_interval.length),
        date_part('minute', _check_interval.length),
        date_part('second', _check_interval.length)
    ) < 0
        or _check_interval.length > interval '36500 days'
        or (_check_interval.length = interval '0' and not _check_interval.zero_allowed)
    then
        raise exception 'argument "%" must be %',
            _check_interval.argument,
            case
                when _check_interval.zero_allowed then 'from 0 to 36500 days'
                else 'more than 0 and at most 36500 days'
            end
            using errcode = '22023',
                detail = format('Given: %s.', _check_interval.length),
                hint = 'No part of it may be negative.';
    end if;
end
$$;

comment on function pgq._check_interval(text, interval, boolean) is
'Refuses a length of time that is null (22004), longer than 36500 days, or has a negative part
(22023).';

-- ==== sql/shared/_check_content.sql

create function pgq._check_content(payload jsonb, headers jsonb, body bytea)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if (_check_content.payload is null) = (_check_content.body is null) then
        raise exception '"payload", "body": exactly one is needed'
            using errcode = case when _check_content.payload is null then '22004' else '22023' end,
                hint = 'Pass payload (jsonb) or body (bytea). JSON null is ''null''::jsonb.';
    end if;
    if jsonb_typeof(_check_content.headers) <> 'object' then
        raise exception 'argument "headers" must be a JSON object'
            using errcode = '22023',
                detail = format('Given: a JSON %s.', jsonb_typeof(_check_content.headers));
    end if;
end
$$;

comment on function pgq._check_content(jsonb, jsonb, bytea) is
'Refuses a message or job without content (22004), with two contents, or with odd headers (22023).';

-- ==== sql/shared/_check_batch.sql

create function pgq._check_batch(
    payloads jsonb[],
    keys text[],
    headers jsonb[],
    labels text[],
    bodies bytea[]
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
        raise exception '"payloads", "bodies": exactly one is needed'
            using errcode = case when _check_batch.payloads is null then '22004' else '22023' end,
                hint = 'Pass payloads (jsonb[]) or bodies (bytea[]). JSON null is ''null''::jsonb.';
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
        raise exception 'argument "%" must not contain null',
            case when _check_batch.payloads is null then 'bodies' else 'payloads' end
            using errcode = '22004',
                detail = format('Number %s of %s is null; nothing was stored.', gap + 1, size);
    end if;
    if _check_batch.headers is not null
        and exists (
            select from unnest(_check_batch.headers) as h (header)
            where jsonb_typeof(h.header) <> 'object'
        )
    then
        raise exception 'argument "headers" must contain nothing but JSON objects'
            using errcode = '22023';
    end if;
    return size;
end
$$;

comment on function pgq._check_batch(jsonb[], text[], jsonb[], text[], bytea[]) is
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

create function pgq._check_no_limit(no_limit text[], given jsonb)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    allowed text[] := array(
        select k.name
        from jsonb_object_keys(_check_no_limit.given) as k (name)
        order by k.name
    );
    twice text;
begin
    if not coalesce(_check_no_limit.no_limit, '{}') <@ allowed then
        raise exception 'argument "no_limit" must name nothing but settings with a limit to lift'
            using errcode = '22023',
                detail = format(
                    'Given: %s; allowed: %s.',
                    array_to_string(_check_no_limit.no_limit, ', ', 'null'),
                    array_to_string(allowed, ', ')
                );
    end if;

    select min(g.key)
    into twice
    from jsonb_each(jsonb_strip_nulls(_check_no_limit.given)) as g
    where g.key = any(_check_no_limit.no_limit);

    if twice is not null then
        raise exception '"%" and "no_limit" exclude each other', twice
            using errcode = '22023',
                detail = format('"no_limit" names "%s", which is given.', twice);
    end if;
end
$$;

comment on function pgq._check_no_limit(text[], jsonb) is
'Refuses in no_limit the name of a setting that has no limit to lift, and of one that is given
(22023). given has the settings whose limits can be lifted, null where they are not given.';

-- ==== sql/shared/_check_idempotency_window.sql

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

comment on function pgq._check_idempotency_window(interval) is
'Refuses a window of idempotency keys that is null (22004), too short or too long (22023).';

-- ==== sql/shared/_check_idempotency_keys.sql

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

comment on function pgq._check_idempotency_keys(text, text[], integer) is
'Refuses idempotency keys that are empty or too long, or other than one for each message (22023).';

-- ==== sql/shared/_check_settings_equal.sql

create function pgq._check_settings_equal(
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
    lacking text := case _check_settings_equal.kind when 'schedule' then 'none' else 'no limit' end;
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
                hint = format(
                    'Leave a setting out to take it as it is, or change it with pgq.alter_%s.',
                    case _check_settings_equal.kind
                        when 'consumer group' then 'group'
                        else _check_settings_equal.kind
                    end
                );
    end if;
end
$$;

comment on function pgq._check_settings_equal(text, text, jsonb, text[], jsonb) is
'Refuses to create what exists with other settings than those given (MQ005), and names them.';

-- ==== sql/store/_create_leaf.sql

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

-- ==== sql/store/_mark_segment.sql

create function pgq._mark_segment(segment integer)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    execute format(
        'insert into pgq.message_%1$s (partition_id, log_offset, published_at, segment)
        values (0, 0, ''infinity'', %1$s)
        on conflict do nothing',
        _mark_segment.segment
    );
end
$$;

comment on function pgq._mark_segment(integer) is
'Gives a segment its first row, by which a reader knows that it has not been emptied (_is_kept). It
has the id 0, which no partition and no queue has.';

-- ==== sql/store/_open_segment.sql

create function pgq._open_segment(storage_class_id bigint)
returns integer
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    free_leaf integer;
begin
    loop
        -- A leaf that another transaction is about to take is passed over. Under REPEATABLE READ
        -- one that was taken since the snapshot raises 40001.
        select l.leaf
        into free_leaf
        from pgq.leaf as l
        where l.free
            -- After a restore all count as free.
            and not exists (select from pgq.segment as s where s.segment = l.leaf)
        order by l.leaf
        limit 1
        for update skip locked;

        exit when free_leaf is not null;

        -- A new one. Under REPEATABLE READ another one that made it raises 40001.
        insert into pgq.leaf (leaf, free)
        select min(n.leaf), true
        from generate_series(
            0, (select count(*) from pgq.leaf) + (select count(*) from pgq.segment)
        ) as n (leaf)
        where not exists (select from pgq.leaf as l where l.leaf = n.leaf)
            and not exists (select from pgq.segment as s where s.segment = n.leaf)
        on conflict do nothing
        returning leaf
        into free_leaf;

        if free_leaf is not null then
            if to_regclass('pgq.message_' || free_leaf) is null then
                perform pgq._create_leaf(free_leaf);
            end if;
            exit;
        end if;
    end loop;

    update pgq.leaf as l
    set free = false
    where l.leaf = free_leaf;

    perform pgq._mark_segment(free_leaf);
    insert into pgq.segment (segment, storage_class_id, state, opened_at)
    values (free_leaf, _open_segment.storage_class_id, 'open', pgq._clock());

    update pgq.storage_class as c
    set segment = free_leaf
    where c.storage_class_id = _open_segment.storage_class_id;

    return free_leaf;
end
$$;

comment on function pgq._open_segment(bigint) is
'Takes a free leaf, or makes one, as the open segment of a storage class whose row the caller has
locked, and returns its number.';

-- ==== sql/store/_storage_class.sql

create function pgq._storage_class(retention interval, max_bytes bigint, owner_id bigint)
returns pgq.storage_class
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    class pgq.storage_class;
begin
    -- Again when cleanup removes a class out of use between two statements.
    while class.storage_class_id is null loop
        -- The share lock keeps the segment open to the end of the transaction. Under REPEATABLE
        -- READ, a class that has gone on to another segment since the snapshot raises 40001.
        begin
            select c.*
            into class
            from pgq.storage_class as c
            where
                coalesce(interval_send(c.retention), ''::bytea)
                = coalesce(interval_send(_storage_class.retention), ''::bytea)
                and coalesce(c.owner_id, 0) = coalesce(_storage_class.owner_id, 0)
            for share;

            -- Undone, and the lock with it: several that have it and want more than that would
            -- block each other.
            if class.segment is null or class.max_bytes is distinct from _storage_class.max_bytes
            then
                raise exception 'the storage class has gone out of use'
                    using errcode = '55P03';
            end if;
            exit;
        exception
            when lock_not_available then
                null;
        end;

        insert into pgq.storage_class (retention, max_bytes, owner_id)
        values (_storage_class.retention, _storage_class.max_bytes, _storage_class.owner_id)
        on conflict do nothing;

        select c.*
        into class
        from pgq.storage_class as c
        where
            coalesce(interval_send(c.retention), ''::bytea)
            = coalesce(interval_send(_storage_class.retention), ''::bytea)
            and coalesce(c.owner_id, 0) = coalesce(_storage_class.owner_id, 0)
        for update;

        if class.storage_class_id is not null and class.segment is null then
            class.segment := pgq._open_segment(class.storage_class_id);
        end if;
    end loop;

    if class.max_bytes is distinct from _storage_class.max_bytes then
        update pgq.storage_class as c
        set max_bytes = _storage_class.max_bytes
        where c.storage_class_id = class.storage_class_id;
        class.max_bytes := _storage_class.max_bytes;
    end if;

    return class;
end
$$;

comment on function pgq._storage_class(interval, bigint, bigint) is
'The storage class for a retention, made on first use together with its first segment; its segment
stays the open one to the end of the transaction.';

-- ==== sql/store/_segment_until.sql

create function pgq._segment_until(class pgq.storage_class)
returns timestamptz
language sql
stable
parallel safe
as $$
select
    case
        when (_segment_until.class).max_bytes is not null then '-infinity'
        when (_segment_until.class).retention is null then 'infinity'
        else s.opened_at + (_segment_until.class).retention / 3
    end
from pgq.segment as s
where s.segment = (_segment_until.class).segment
$$;

comment on function pgq._segment_until(pgq.storage_class) is
'Until when a storage class writes to its open segment for sure: before that it does not age out.
A class with a size limit may move to the next one at any time.';

-- ==== sql/store/_newest.sql

create function pgq._newest(partition_id bigint, segment integer, first_offset bigint)
returns pgq._newest_message
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    newest pgq._newest_message;
begin
    if _newest.segment = 0 then
        select m.log_offset, m.published_at
        from pgq.message_0 as m
        where m.partition_id = _newest.partition_id
            and m.log_offset >= _newest.first_offset
        order by m.log_offset desc
        limit 1
        into newest.log_offset, newest.published_at;
    elsif _newest.segment = 1 then
        select m.log_offset, m.published_at
        from pgq.message_1 as m
        where m.partition_id = _newest.partition_id
            and m.log_offset >= _newest.first_offset
        order by m.log_offset desc
        limit 1
        into newest.log_offset, newest.published_at;
    elsif _newest.segment <= 3 then
        if _newest.segment <= 2 then
            select m.log_offset, m.published_at
            from pgq.message_2 as m
            where m.partition_id = _newest.partition_id
                and m.log_offset >= _newest.first_offset
            order by m.log_offset desc
            limit 1
            into newest.log_offset, newest.published_at;
        else
            select m.log_offset, m.published_at
            from pgq.message_3 as m
            where m.partition_id = _newest.partition_id
                and m.log_offset >= _newest.first_offset
            order by m.log_offset desc
            limit 1
            into newest.log_offset, newest.published_at;
        end if;
    elsif _newest.segment <= 7 then
        if _newest.segment <= 5 then
            if _newest.segment <= 4 then
                select m.log_offset, m.published_at
                from pgq.message_4 as m
                where m.partition_id = _newest.partition_id
                    and m.log_offset >= _newest.first_offset
                order by m.log_offset desc
                limit 1
                into newest.log_offset, newest.published_at;
            else
                select m.log_offset, m.published_at
                from pgq.message_5 as m
                where m.partition_id = _newest.partition_id
                    and m.log_offset >= _newest.first_offset
                order by m.log_offset desc
                limit 1
                into newest.log_offset, newest.published_at;
            end if;
        else
            if _newest.segment <= 6 then
                select m.log_offset, m.published_at
                from pgq.message_6 as m
                where m.partition_id = _newest.partition_id
                    and m.log_offset >= _newest.first_offset
                order by m.log_offset desc
                limit 1
                into newest.log_offset, newest.published_at;
            else
                select m.log_offset, m.published_at
                from pgq.message_7 as m
                where m.partition_id = _newest.partition_id
                    and m.log_offset >= _newest.first_offset
                order by m.log_offset desc
                limit 1
                into newest.log_offset, newest.published_at;
            end if;
        end if;
    elsif _newest.segment <= 15 then
        if _newest.segment <= 11 then
            if _newest.segment <= 9 then
                if _newest.segment <= 8 then
                    select m.log_offset, m.published_at
                    from pgq.message_8 as m
                    where m.partition_id = _newest.partition_id
                        and m.log_offset >= _newest.first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest.log_offset, newest.published_at;
                else
                    select m.log_offset, m.published_at
                    from pgq.message_9 as m
                    where m.partition_id = _newest.partition_id
                        and m.log_offset >= _newest.first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest.log_offset, newest.published_at;
                end if;
            else
                if _newest.segment <= 10 then
                    select m.log_offset, m.published_at
                    from pgq.message_10 as m
                    where m.partition_id = _newest.partition_id
                        and m.log_offset >= _newest.first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest.log_offset, newest.published_at;
                else
                    select m.log_offset, m.published_at
                    from pgq.message_11 as m
                    where m.partition_id = _newest.partition_id
                        and m.log_offset >= _newest.first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest.log_offset, newest.published_at;
                end if;
            end if;
        else
            if _newest.segment <= 13 then
                if _newest.segment <= 12 then
                    select m.log_offset, m.published_at
                    from pgq.message_12 as m
                    where m.partition_id = _newest.partition_id
                        and m.log_offset >= _newest.first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest.log_offset, newest.published_at;
                else
                    select m.log_offset, m.published_at
                    from pgq.message_13 as m
                    where m.partition_id = _newest.partition_id
                        and m.log_offset >= _newest.first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest.log_offset, newest.published_at;
                end if;
            else
                if _newest.segment <= 14 then
                    select m.log_offset, m.published_at
                    from pgq.message_14 as m
                    where m.partition_id = _newest.partition_id
                        and m.log_offset >= _newest.first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest.log_offset, newest.published_at;
                else
                    select m.log_offset, m.published_at
                    from pgq.message_15 as m
                    where m.partition_id = _newest.partition_id
                        and m.log_offset >= _newest.first_offset
                    order by m.log_offset desc
                    limit 1
                    into newest.log_offset, newest.published_at;
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
        $leaf$, _newest.segment)
        into newest.log_offset, newest.published_at
        using _newest.partition_id, _newest.first_offset;
    end if;

    return newest;
end
$$;

comment on function pgq._newest(bigint, integer, bigint) is
'The last message of a partition in a segment, from an offset on; null when there is none.';

-- ==== sql/store/_is_kept.sql

create function pgq._is_kept(segment integer)
returns boolean
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    kept boolean;
begin
    if _is_kept.segment = 0 then
        select true
        from pgq.message_0 as m
        where m.partition_id = 0
        limit 1
        into kept;
    elsif _is_kept.segment = 1 then
        select true
        from pgq.message_1 as m
        where m.partition_id = 0
        limit 1
        into kept;
    elsif _is_kept.segment <= 3 then
        if _is_kept.segment <= 2 then
            select true
            from pgq.message_2 as m
            where m.partition_id = 0
            limit 1
            into kept;
        else
            select true
            from pgq.message_3 as m
            where m.partition_id = 0
            limit 1
            into kept;
        end if;
    elsif _is_kept.segment <= 7 then
        if _is_kept.segment <= 5 then
            if _is_kept.segment <= 4 then
                select true
                from pgq.message_4 as m
                where m.partition_id = 0
                limit 1
                into kept;
            else
                select true
                from pgq.message_5 as m
                where m.partition_id = 0
                limit 1
                into kept;
            end if;
        else
            if _is_kept.segment <= 6 then
                select true
                from pgq.message_6 as m
                where m.partition_id = 0
                limit 1
                into kept;
            else
                select true
                from pgq.message_7 as m
                where m.partition_id = 0
                limit 1
                into kept;
            end if;
        end if;
    elsif _is_kept.segment <= 15 then
        if _is_kept.segment <= 11 then
            if _is_kept.segment <= 9 then
                if _is_kept.segment <= 8 then
                    select true
                    from pgq.message_8 as m
                    where m.partition_id = 0
                    limit 1
                    into kept;
                else
                    select true
                    from pgq.message_9 as m
                    where m.partition_id = 0
                    limit 1
                    into kept;
                end if;
            else
                if _is_kept.segment <= 10 then
                    select true
                    from pgq.message_10 as m
                    where m.partition_id = 0
                    limit 1
                    into kept;
                else
                    select true
                    from pgq.message_11 as m
                    where m.partition_id = 0
                    limit 1
                    into kept;
                end if;
            end if;
        else
            if _is_kept.segment <= 13 then
                if _is_kept.segment <= 12 then
                    select true
                    from pgq.message_12 as m
                    where m.partition_id = 0
                    limit 1
                    into kept;
                else
                    select true
                    from pgq.message_13 as m
                    where m.partition_id = 0
                    limit 1
                    into kept;
                end if;
            else
                if _is_kept.segment <= 14 then
                    select true
                    from pgq.message_14 as m
                    where m.partition_id = 0
                    limit 1
                    into kept;
                else
                    select true
                    from pgq.message_15 as m
                    where m.partition_id = 0
                    limit 1
                    into kept;
                end if;
            end if;
        end if;
    else
        execute format($leaf$
            select true
            from pgq.message_%1$s as m
            where m.partition_id = 0
            limit 1
        $leaf$, _is_kept.segment)
        into kept;
    end if;

    return kept is not null;
end
$$;

comment on function pgq._is_kept(integer) is
'Whether a segment that the snapshot shows has not been emptied since. TRUNCATE is seen by snapshots
that are older, too; what they still see of a segment is its first row, or it was emptied.';

-- ==== sql/store/_has_keys.sql

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

comment on function pgq._has_keys(integer) is
'Whether a segment holds idempotency keys.';

-- ==== sql/store/_note_former_window.sql

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

comment on function pgq._note_former_window(bigint, interval, interval) is
'Notes that a queue or topic, whose row the caller has locked, gets another window: what was noted
by the one before is still to be found.';

-- ==== sql/store/_key_segments.sql

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

comment on function pgq._key_segments(bigint, interval) is
'Where the keys of a queue or topic with this window stand, and where new ones are to be written: to
all segments that others who write at the same time may have written to. The caller has taken its
transaction id before.';

-- ==== sql/store/_find_keys.sql

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

comment on function pgq._find_keys(integer, bigint, text[]) is
'The rows of idempotency keys in a segment, also those past their window.';

-- ==== sql/store/_insert_keys.sql

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

comment on function pgq._insert_keys(integer, bigint, text[], interval, timestamptz) is
'Notes keys in a segment, without a position, and returns them but for those that somebody else has
noted there meanwhile. The keys come in ascending order.';

-- ==== sql/store/_forget_keys.sql

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

comment on function pgq._forget_keys(integer[], bigint, text[]) is
'Removes keys that this call has noted in these segments before it found that another transaction
was first.';

-- ==== sql/store/_note_keys.sql

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

comment on function pgq._note_keys(bigint, interval, text[]) is
'Notes the idempotency keys of a batch for a queue or topic with this window, or finds what they
stand for; null elements have no key. Waits for other transactions that note one of them. The caller
has taken its transaction id before it read the window, and calls _place_keys in the end.';

-- ==== sql/store/_place_keys.sql

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

comment on function pgq._place_keys(
    integer[], bigint, text[], bigint[], integer[], bigint[]
) is
'Notes what the keys stand for that this call has noted in these segments.';

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

-- ==== sql/log/_check_topic.sql

create function pgq._check_topic(topic text)
returns void
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
begin
    if not exists (select from pgq.topic as t where t.topic = _check_topic.topic) then
        perform pgq._fail_unknown_topic(_check_topic.topic);
    end if;
end
$$;

comment on function pgq._check_topic(text) is
'Raises MQ001 when there is no topic of this name, or 22004 when no name was given.
Whoever waited for the row of a topic and does not find it calls this, and looks again: it may have
been dropped and created again meanwhile.';

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
    last_available bigint,
    for_group boolean
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
                when _fail_out_of_range.log_offset > _fail_out_of_range.last_available then
                    'It is not published yet, or not visible here: not committed or replicated.'
                when _fail_out_of_range.for_group then
                    'Retention has removed it. Use pgq.seek, or let the group skip what is gone, '
                    'by pgq.alter_group with out_of_range => ''skip''.'
                else
                    'Retention has removed it. pgq.list_offsets shows what is there.'
            end;
end
$$;

comment on function pgq._fail_out_of_range(text, integer, bigint, bigint, bigint, boolean) is
'Raises MQ004 with the offsets that there are; for_group: a group was to read it next.';

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

comment on function pgq._check_topic_settings(integer, interval, bigint, interval) is
'Refuses settings that a topic cannot have (22004, 22023).';

-- ==== sql/log/_check_out_of_range.sql

create function pgq._check_out_of_range(out_of_range text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_out_of_range.out_of_range not in ('error', 'skip') then
        raise exception 'argument "out_of_range" must be error or skip'
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_out_of_range(text) is
'Refuses what a consumer group cannot do out of range (22023).';

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

-- ==== sql/log/_last_offset.sql

create function pgq._last_offset(partition_id bigint, segment integer, segment_first_offset bigint)
returns bigint
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    newest_offset bigint := (
        pgq._newest(
            _last_offset.partition_id, _last_offset.segment, _last_offset.segment_first_offset
        )
    ).log_offset;
begin
    if newest_offset is not null then
        return newest_offset;
    end if;

    -- Nothing there yet, unless the partition has left this segment since the snapshot was taken,
    -- and it was emptied.
    if not pgq._is_kept(_last_offset.segment) then
        perform pgq._fail_truncated(p.topic)
        from pgq.partition as p
        where p.partition_id = _last_offset.partition_id;
    end if;
    return _last_offset.segment_first_offset - 1;
end
$$;

comment on function pgq._last_offset(bigint, integer, bigint) is
'The newest offset of a partition, 0 when it never had a message; 40001 when its segment was emptied
since the snapshot was taken. Where the partition stands has to be read by the same statement.';

-- ==== sql/log/_runs.sql

create function pgq._runs(partition_id bigint, first_offset bigint, last_offset bigint)
returns table (
    segment integer,
    stored_partition_id bigint,
    shift bigint,
    published_at timestamptz,
    first_offset bigint,
    last_offset bigint
)
language sql
stable
parallel safe
as $$
select
    r.segment,
    r.stored_partition_id,
    r.shift,
    r.published_at,
    greatest(r.first_offset, _runs.first_offset),
    least(r.next_first_offset - 1, _runs.last_offset)
from (
    select
        s.*,
        coalesce(
            lead(s.first_offset) over (order by s.first_offset), 9223372036854775807
        ) as next_first_offset
    from pgq.segment_range as s
    where s.partition_id = _runs.partition_id
) as r
where r.first_offset <= _runs.last_offset
    and r.next_first_offset > _runs.first_offset
order by r.first_offset
$$;

comment on function pgq._runs(bigint, bigint, bigint) is
'Where the offsets of a range of a partition are stored: a row for each run of them, in order.';

-- ==== sql/log/_published_at.sql

create function pgq._published_at(partition_id bigint, log_offset bigint)
returns timestamptz
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    run record;
    published_at timestamptz;
begin
    select r.segment, r.stored_partition_id, r.shift, r.published_at
    into run
    from pgq.segment_range as r
    where r.partition_id = _published_at.partition_id
        and r.first_offset <= _published_at.log_offset
    order by r.first_offset desc
    limit 1;

    if run.segment is null then
        return null;
    end if;

    if run.segment = 0 then
        select coalesce(run.published_at, m.published_at)
        from pgq.message_0 as m
        where m.partition_id = run.stored_partition_id
            and m.log_offset = _published_at.log_offset - run.shift
        into published_at;
    elsif run.segment = 1 then
        select coalesce(run.published_at, m.published_at)
        from pgq.message_1 as m
        where m.partition_id = run.stored_partition_id
            and m.log_offset = _published_at.log_offset - run.shift
        into published_at;
    elsif run.segment <= 3 then
        if run.segment <= 2 then
            select coalesce(run.published_at, m.published_at)
            from pgq.message_2 as m
            where m.partition_id = run.stored_partition_id
                and m.log_offset = _published_at.log_offset - run.shift
            into published_at;
        else
            select coalesce(run.published_at, m.published_at)
            from pgq.message_3 as m
            where m.partition_id = run.stored_partition_id
                and m.log_offset = _published_at.log_offset - run.shift
            into published_at;
        end if;
    elsif run.segment <= 7 then
        if run.segment <= 5 then
            if run.segment <= 4 then
                select coalesce(run.published_at, m.published_at)
                from pgq.message_4 as m
                where m.partition_id = run.stored_partition_id
                    and m.log_offset = _published_at.log_offset - run.shift
                into published_at;
            else
                select coalesce(run.published_at, m.published_at)
                from pgq.message_5 as m
                where m.partition_id = run.stored_partition_id
                    and m.log_offset = _published_at.log_offset - run.shift
                into published_at;
            end if;
        else
            if run.segment <= 6 then
                select coalesce(run.published_at, m.published_at)
                from pgq.message_6 as m
                where m.partition_id = run.stored_partition_id
                    and m.log_offset = _published_at.log_offset - run.shift
                into published_at;
            else
                select coalesce(run.published_at, m.published_at)
                from pgq.message_7 as m
                where m.partition_id = run.stored_partition_id
                    and m.log_offset = _published_at.log_offset - run.shift
                into published_at;
            end if;
        end if;
    elsif run.segment <= 15 then
        if run.segment <= 11 then
            if run.segment <= 9 then
                if run.segment <= 8 then
                    select coalesce(run.published_at, m.published_at)
                    from pgq.message_8 as m
                    where m.partition_id = run.stored_partition_id
                        and m.log_offset = _published_at.log_offset - run.shift
                    into published_at;
                else
                    select coalesce(run.published_at, m.published_at)
                    from pgq.message_9 as m
                    where m.partition_id = run.stored_partition_id
                        and m.log_offset = _published_at.log_offset - run.shift
                    into published_at;
                end if;
            else
                if run.segment <= 10 then
                    select coalesce(run.published_at, m.published_at)
                    from pgq.message_10 as m
                    where m.partition_id = run.stored_partition_id
                        and m.log_offset = _published_at.log_offset - run.shift
                    into published_at;
                else
                    select coalesce(run.published_at, m.published_at)
                    from pgq.message_11 as m
                    where m.partition_id = run.stored_partition_id
                        and m.log_offset = _published_at.log_offset - run.shift
                    into published_at;
                end if;
            end if;
        else
            if run.segment <= 13 then
                if run.segment <= 12 then
                    select coalesce(run.published_at, m.published_at)
                    from pgq.message_12 as m
                    where m.partition_id = run.stored_partition_id
                        and m.log_offset = _published_at.log_offset - run.shift
                    into published_at;
                else
                    select coalesce(run.published_at, m.published_at)
                    from pgq.message_13 as m
                    where m.partition_id = run.stored_partition_id
                        and m.log_offset = _published_at.log_offset - run.shift
                    into published_at;
                end if;
            else
                if run.segment <= 14 then
                    select coalesce(run.published_at, m.published_at)
                    from pgq.message_14 as m
                    where m.partition_id = run.stored_partition_id
                        and m.log_offset = _published_at.log_offset - run.shift
                    into published_at;
                else
                    select coalesce(run.published_at, m.published_at)
                    from pgq.message_15 as m
                    where m.partition_id = run.stored_partition_id
                        and m.log_offset = _published_at.log_offset - run.shift
                    into published_at;
                end if;
            end if;
        end if;
    else
        execute format($leaf$
            select coalesce($1, m.published_at)
            from pgq.message_%1$s as m
            where m.partition_id = $2
                and m.log_offset = $3 - $4
        $leaf$, run.segment)
        into published_at
        using run.published_at, run.stored_partition_id, _published_at.log_offset, run.shift;
    end if;

    return published_at;
end
$$;

comment on function pgq._published_at(bigint, bigint) is
'When the message of an offset was published; null when retention has removed it, perhaps since the
snapshot was taken.';

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
        select r.*
        from pgq._runs(
            _messages_across.partition_id,
            _messages_across.first_offset,
            _messages_across.last_offset
        ) as r
    loop
        if run.segment = 0 then
            return query
            select
                _messages_across.partition,
                m.log_offset + run.shift,
                coalesce(run.published_at, m.published_at),
                m.key,
                m.headers,
                m.payload,
                m.body
            from pgq.message_0 as m
            where m.partition_id = run.stored_partition_id
                and m.log_offset between run.first_offset - run.shift and run.last_offset
                - run.shift
            order by m.log_offset;
        elsif run.segment = 1 then
            return query
            select
                _messages_across.partition,
                m.log_offset + run.shift,
                coalesce(run.published_at, m.published_at),
                m.key,
                m.headers,
                m.payload,
                m.body
            from pgq.message_1 as m
            where m.partition_id = run.stored_partition_id
                and m.log_offset between run.first_offset - run.shift and run.last_offset
                - run.shift
            order by m.log_offset;
        elsif run.segment <= 3 then
            if run.segment <= 2 then
                return query
                select
                    _messages_across.partition,
                    m.log_offset + run.shift,
                    coalesce(run.published_at, m.published_at),
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_2 as m
                where m.partition_id = run.stored_partition_id
                    and m.log_offset between run.first_offset - run.shift and run.last_offset
                    - run.shift
                order by m.log_offset;
            else
                return query
                select
                    _messages_across.partition,
                    m.log_offset + run.shift,
                    coalesce(run.published_at, m.published_at),
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_3 as m
                where m.partition_id = run.stored_partition_id
                    and m.log_offset between run.first_offset - run.shift and run.last_offset
                    - run.shift
                order by m.log_offset;
            end if;
        elsif run.segment <= 7 then
            if run.segment <= 5 then
                if run.segment <= 4 then
                    return query
                    select
                        _messages_across.partition,
                        m.log_offset + run.shift,
                        coalesce(run.published_at, m.published_at),
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_4 as m
                    where m.partition_id = run.stored_partition_id
                        and m.log_offset between run.first_offset - run.shift and run.last_offset
                        - run.shift
                    order by m.log_offset;
                else
                    return query
                    select
                        _messages_across.partition,
                        m.log_offset + run.shift,
                        coalesce(run.published_at, m.published_at),
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_5 as m
                    where m.partition_id = run.stored_partition_id
                        and m.log_offset between run.first_offset - run.shift and run.last_offset
                        - run.shift
                    order by m.log_offset;
                end if;
            else
                if run.segment <= 6 then
                    return query
                    select
                        _messages_across.partition,
                        m.log_offset + run.shift,
                        coalesce(run.published_at, m.published_at),
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_6 as m
                    where m.partition_id = run.stored_partition_id
                        and m.log_offset between run.first_offset - run.shift and run.last_offset
                        - run.shift
                    order by m.log_offset;
                else
                    return query
                    select
                        _messages_across.partition,
                        m.log_offset + run.shift,
                        coalesce(run.published_at, m.published_at),
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_7 as m
                    where m.partition_id = run.stored_partition_id
                        and m.log_offset between run.first_offset - run.shift and run.last_offset
                        - run.shift
                    order by m.log_offset;
                end if;
            end if;
        elsif run.segment <= 15 then
            if run.segment <= 11 then
                if run.segment <= 9 then
                    if run.segment <= 8 then
                        return query
                        select
                            _messages_across.partition,
                            m.log_offset + run.shift,
                            coalesce(run.published_at, m.published_at),
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_8 as m
                        where m.partition_id = run.stored_partition_id
                            and m.log_offset between run.first_offset - run.shift and run.last_offset
                            - run.shift
                        order by m.log_offset;
                    else
                        return query
                        select
                            _messages_across.partition,
                            m.log_offset + run.shift,
                            coalesce(run.published_at, m.published_at),
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_9 as m
                        where m.partition_id = run.stored_partition_id
                            and m.log_offset between run.first_offset - run.shift and run.last_offset
                            - run.shift
                        order by m.log_offset;
                    end if;
                else
                    if run.segment <= 10 then
                        return query
                        select
                            _messages_across.partition,
                            m.log_offset + run.shift,
                            coalesce(run.published_at, m.published_at),
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_10 as m
                        where m.partition_id = run.stored_partition_id
                            and m.log_offset between run.first_offset - run.shift and run.last_offset
                            - run.shift
                        order by m.log_offset;
                    else
                        return query
                        select
                            _messages_across.partition,
                            m.log_offset + run.shift,
                            coalesce(run.published_at, m.published_at),
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_11 as m
                        where m.partition_id = run.stored_partition_id
                            and m.log_offset between run.first_offset - run.shift and run.last_offset
                            - run.shift
                        order by m.log_offset;
                    end if;
                end if;
            else
                if run.segment <= 13 then
                    if run.segment <= 12 then
                        return query
                        select
                            _messages_across.partition,
                            m.log_offset + run.shift,
                            coalesce(run.published_at, m.published_at),
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_12 as m
                        where m.partition_id = run.stored_partition_id
                            and m.log_offset between run.first_offset - run.shift and run.last_offset
                            - run.shift
                        order by m.log_offset;
                    else
                        return query
                        select
                            _messages_across.partition,
                            m.log_offset + run.shift,
                            coalesce(run.published_at, m.published_at),
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_13 as m
                        where m.partition_id = run.stored_partition_id
                            and m.log_offset between run.first_offset - run.shift and run.last_offset
                            - run.shift
                        order by m.log_offset;
                    end if;
                else
                    if run.segment <= 14 then
                        return query
                        select
                            _messages_across.partition,
                            m.log_offset + run.shift,
                            coalesce(run.published_at, m.published_at),
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_14 as m
                        where m.partition_id = run.stored_partition_id
                            and m.log_offset between run.first_offset - run.shift and run.last_offset
                            - run.shift
                        order by m.log_offset;
                    else
                        return query
                        select
                            _messages_across.partition,
                            m.log_offset + run.shift,
                            coalesce(run.published_at, m.published_at),
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_15 as m
                        where m.partition_id = run.stored_partition_id
                            and m.log_offset between run.first_offset - run.shift and run.last_offset
                            - run.shift
                        order by m.log_offset;
                    end if;
                end if;
            end if;
        else
            return query execute format($leaf$
                select
                    $1,
                    m.log_offset + $2,
                    coalesce($3, m.published_at),
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_%1$s as m
                where m.partition_id = $4
                    and m.log_offset between $5 - $2 and $6
                    - $2
                order by m.log_offset
            $leaf$, run.segment)
            using _messages_across.partition, run.shift, run.published_at, run.stored_partition_id, run.first_offset, run.last_offset;
        end if;
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
    last_offset bigint
)
returns bigint
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    low bigint := _offset_at.first_available;
    high bigint := _offset_at.last_offset + 1;
    middle bigint;
    middle_at timestamptz;
begin
    -- Mostly what is asked for is the end.
    if low < high and pgq._published_at(_offset_at.partition_id, _offset_at.last_offset)
        < _offset_at.published_at
    then
        return high;
    end if;

    -- published_at rises with the offset, so halving finds the place without an index on the time.
    -- What retention has removed, perhaps since the caller looked, is older than all that is there.
    while low < high loop
        middle := low + (high - low) / 2;
        middle_at := pgq._published_at(_offset_at.partition_id, middle);

        if (middle_at >= _offset_at.published_at) is not true then
            low := middle + 1;
        else
            high := middle;
        end if;
    end loop;
    return low;
end
$$;

comment on function pgq._offset_at(bigint, timestamptz, bigint, bigint) is
'The first offset of a partition that was published at a time or later; last_offset + 1 when there
is none.';

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
            pgq._last_offset(p.partition_id, p.segment, p.segment_first_offset) as last_offset
        from pgq.topic as t
        inner join pgq.partition as p on p.topic_id = t.topic_id
        where t.topic = list_offsets.topic collate "C"
    ) as s
    order by s.partition;

    if not found then
        perform pgq._fail_unknown_topic(list_offsets.topic collate "C");
    end if;
end
$$;

comment on function pgq.list_offsets(text, timestamptz) is
'Returns the offsets that each partition of a topic has, from the first to the last that are kept.
An empty partition has last_offset = first_offset - 1. With published_at, log_offset is the first
that was published then or later, last_offset + 1 when there is none; else it is null. Whatever is
published later gets higher offsets, so ranges planned from here stay as they are.
Errors: MQ001 unknown topic, 22004 a required argument is null, 40001 when retention removes what is
being read (try again).';

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
    from pgq.partition as p
    where p.topic = check_range.topic collate "C"
        and p.partition = check_range.partition;

    if place.partition_id is null then
        perform pgq._fail_unknown_partition(t.topic, check_range.partition, t.partitions)
        from pgq.topic as t
        where t.topic = check_range.topic collate "C";

        perform pgq._fail_unknown_topic(check_range.topic collate "C");
    end if;

    if check_range.first_offset <= check_range.last_offset then
        first_available := pgq._first_available(place.partition_id);
        last_available := pgq._last_offset(
            place.partition_id, place.segment, place.segment_first_offset
        );

        -- An old snapshot (REPEATABLE READ) still has the bounds of a segment that was truncated
        -- since, but not its messages; so one message of each segment is looked at. Having been
        -- read, the segments cannot be truncated before this transaction ends.
        if check_range.first_offset < first_available
            or check_range.last_offset > last_available
            or exists (
                select
                from pgq._runs(
                    place.partition_id, check_range.first_offset, check_range.last_offset
                ) as r
                where (
                    pgq._newest(r.stored_partition_id, r.segment, r.first_offset - r.shift)
                ).log_offset is null
            )
        then
            perform pgq._fail_out_of_range(
                check_range.topic collate "C",
                check_range.partition,
                case
                    when check_range.first_offset < first_available
                        or check_range.last_offset <= last_available
                        then check_range.first_offset
                    else greatest(check_range.first_offset, last_available + 1)
                end,
                first_available,
                last_available,
                false
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
Errors: MQ001 unknown topic, MQ004 a part of the range is not there: removed by retention, not yet
published, or not yet replicated (DETAIL has the available offsets), MQ007 unknown partition,
22004 a required argument is null, 40001 when retention removes what is being read (try again).';

-- ==== sql/log/_partition_figures.sql

create function pgq._partition_figures(
    key uuid,
    partition_id bigint,
    segment integer,
    segment_first_offset bigint,
    next_offset bigint,
    since timestamptz
)
returns table (
    first_offset bigint,
    last_offset bigint,
    published_at timestamptz,
    since_offset bigint
)
language plpgsql
stable
parallel safe
rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    newest pgq._newest_message;
begin
    if not exists (select from pgq.view_key as k where k.key = _partition_figures.key) then
        raise exception 'permission denied for the figures of a partition'
            using errcode = '42501',
                hint = 'The views of pgq show them to those who may read these.';
    end if;

    newest := pgq._newest(
        _partition_figures.partition_id,
        _partition_figures.segment,
        _partition_figures.segment_first_offset
    );
    last_offset := coalesce(newest.log_offset, _partition_figures.segment_first_offset - 1);

    if _partition_figures.next_offset > last_offset then
        return next;
        return;
    end if;

    if _partition_figures.next_offset >= _partition_figures.segment_first_offset then
        if _partition_figures.segment = 0 then
            select m.published_at
            from pgq.message_0 as m
            where m.partition_id = _partition_figures.partition_id
                and m.log_offset = _partition_figures.next_offset
            into published_at;
        elsif _partition_figures.segment = 1 then
            select m.published_at
            from pgq.message_1 as m
            where m.partition_id = _partition_figures.partition_id
                and m.log_offset = _partition_figures.next_offset
            into published_at;
        elsif _partition_figures.segment <= 3 then
            if _partition_figures.segment <= 2 then
                select m.published_at
                from pgq.message_2 as m
                where m.partition_id = _partition_figures.partition_id
                    and m.log_offset = _partition_figures.next_offset
                into published_at;
            else
                select m.published_at
                from pgq.message_3 as m
                where m.partition_id = _partition_figures.partition_id
                    and m.log_offset = _partition_figures.next_offset
                into published_at;
            end if;
        elsif _partition_figures.segment <= 7 then
            if _partition_figures.segment <= 5 then
                if _partition_figures.segment <= 4 then
                    select m.published_at
                    from pgq.message_4 as m
                    where m.partition_id = _partition_figures.partition_id
                        and m.log_offset = _partition_figures.next_offset
                    into published_at;
                else
                    select m.published_at
                    from pgq.message_5 as m
                    where m.partition_id = _partition_figures.partition_id
                        and m.log_offset = _partition_figures.next_offset
                    into published_at;
                end if;
            else
                if _partition_figures.segment <= 6 then
                    select m.published_at
                    from pgq.message_6 as m
                    where m.partition_id = _partition_figures.partition_id
                        and m.log_offset = _partition_figures.next_offset
                    into published_at;
                else
                    select m.published_at
                    from pgq.message_7 as m
                    where m.partition_id = _partition_figures.partition_id
                        and m.log_offset = _partition_figures.next_offset
                    into published_at;
                end if;
            end if;
        elsif _partition_figures.segment <= 15 then
            if _partition_figures.segment <= 11 then
                if _partition_figures.segment <= 9 then
                    if _partition_figures.segment <= 8 then
                        select m.published_at
                        from pgq.message_8 as m
                        where m.partition_id = _partition_figures.partition_id
                            and m.log_offset = _partition_figures.next_offset
                        into published_at;
                    else
                        select m.published_at
                        from pgq.message_9 as m
                        where m.partition_id = _partition_figures.partition_id
                            and m.log_offset = _partition_figures.next_offset
                        into published_at;
                    end if;
                else
                    if _partition_figures.segment <= 10 then
                        select m.published_at
                        from pgq.message_10 as m
                        where m.partition_id = _partition_figures.partition_id
                            and m.log_offset = _partition_figures.next_offset
                        into published_at;
                    else
                        select m.published_at
                        from pgq.message_11 as m
                        where m.partition_id = _partition_figures.partition_id
                            and m.log_offset = _partition_figures.next_offset
                        into published_at;
                    end if;
                end if;
            else
                if _partition_figures.segment <= 13 then
                    if _partition_figures.segment <= 12 then
                        select m.published_at
                        from pgq.message_12 as m
                        where m.partition_id = _partition_figures.partition_id
                            and m.log_offset = _partition_figures.next_offset
                        into published_at;
                    else
                        select m.published_at
                        from pgq.message_13 as m
                        where m.partition_id = _partition_figures.partition_id
                            and m.log_offset = _partition_figures.next_offset
                        into published_at;
                    end if;
                else
                    if _partition_figures.segment <= 14 then
                        select m.published_at
                        from pgq.message_14 as m
                        where m.partition_id = _partition_figures.partition_id
                            and m.log_offset = _partition_figures.next_offset
                        into published_at;
                    else
                        select m.published_at
                        from pgq.message_15 as m
                        where m.partition_id = _partition_figures.partition_id
                            and m.log_offset = _partition_figures.next_offset
                        into published_at;
                    end if;
                end if;
            end if;
        else
            execute format($leaf$
                select m.published_at
                from pgq.message_%1$s as m
                where m.partition_id = $1
                    and m.log_offset = $2
            $leaf$, _partition_figures.segment)
            into published_at
            using _partition_figures.partition_id, _partition_figures.next_offset;
        end if;
        return next;
        return;
    end if;

    first_offset := pgq._first_available(_partition_figures.partition_id);
    if _partition_figures.next_offset is not null then
        published_at := pgq._published_at(
            _partition_figures.partition_id,
            greatest(_partition_figures.next_offset, first_offset)
        );
    end if;
    if _partition_figures.since is not null then
        since_offset := pgq._offset_at(
            _partition_figures.partition_id, _partition_figures.since, first_offset, last_offset
        );
    end if;
    return next;
end
$$;

comment on function pgq._partition_figures(
    uuid, bigint, integer, bigint, bigint, timestamptz
) is
'What the views show of a partition: its first and newest offset, when the message that a group
reads next was published, and the first offset published since a time.
Open to all, so that whoever may read the views can; it asks for the key of the views.';

-- ==== sql/log/_topic_info.sql

create function pgq._topic_info(topic text)
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
    t.idempotency_window
from pgq.topic as t
inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
where t.topic = _topic_info.topic
$$;

comment on function pgq._topic_info(text) is
'A topic and its settings; no row when there is none of that name.';

-- ==== sql/log/_group_info.sql

create function pgq._group_info(topic text, consumer_group text)
returns setof pgq.group_info
language sql
stable
parallel safe
rows 1
as $$
select t.topic, g.consumer_group, g.out_of_range, g.created_at, g.updated_at
from pgq.topic as t
inner join pgq.consumer_group as g on g.topic_id = t.topic_id
where t.topic = _group_info.topic
    and g.consumer_group = _group_info.consumer_group
$$;

comment on function pgq._group_info(text, text) is
'A consumer group and its settings; no row when there is none of that name.';

-- ==== sql/log/_try_offset.sql

create function pgq._try_offset(partition_id bigint, segment integer, log_offset bigint)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    execute format(
        'insert into pgq.message_%1$s (partition_id, log_offset, published_at, segment)
        values ($1, $2, %2$L, %1$s)
        on conflict do nothing',
        _try_offset.segment,
        'infinity'
    )
    using _try_offset.partition_id, _try_offset.log_offset;

    execute format(
        'delete from pgq.message_%1$s where partition_id = $1 and log_offset = $2',
        _try_offset.segment
    )
    using _try_offset.partition_id, _try_offset.log_offset;
end
$$;

comment on function pgq._try_offset(bigint, integer, bigint) is
'Raises 40001 above READ COMMITTED when a segment has a message that the snapshot does not show at
the offset that follows the last one it shows.';

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
        segment_until = entered.segment_until
    where p.partition_id = entered.partition_id;

    -- A segment that got no message of this partition leaves no range behind.
    insert into pgq.segment_range (partition_id, first_offset, segment, stored_partition_id)
    values (
        entered.partition_id, entered.segment_first_offset, entered.segment, entered.partition_id
    )
    on conflict (partition_id, first_offset) do update set segment = excluded.segment;

    return entered;
end
$$;

comment on function pgq._enter_segment(text, pgq._partition_state) is
'Moves a partition, whose row the caller has locked, to the segment that its storage class writes to
now, if that is another one, and notes until when it stays there.';

-- ==== sql/log/_settle_partitions.sql

create function pgq._settle_partitions(topic_id bigint, max_partitions integer)
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
                p.notify
            )::pgq._partition_state as state
        from pgq.partition as p
        inner join pgq.topic as t on t.topic_id = p.topic_id
        inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
        where t.topic_id = coalesce(_settle_partitions.topic_id, t.topic_id)
            and (
                p.segment <> c.segment
                or p.partitions <> t.partitions
                or p.notify <> t.notify
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
            notify = t.notify
        from pgq.topic as t
        where p.partition_id = place.partition_id
            and t.topic_id = p.topic_id;

        perform pgq._enter_segment(place.topic, place.state);
        settled := settled + 1;
    end loop;

    return settled;
end
$$;

comment on function pgq._settle_partitions(bigint, integer) is
'Brings partitions, of one topic or of all, in line with the settings of their topic and with the
segment that its storage class writes to now, and returns how many; those that somebody publishes to
are left for the next time.';

-- ==== sql/log/_add_partitions.sql

create function pgq._add_partitions(
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
    with added as (
        insert into pgq.partition (
            topic_id,
            partition,
            partition_id,
            topic,
            partitions,
            ring,
            notify,
            segment,
            segment_first_offset,
            segment_entered_at,
            segment_until
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
            (_add_partitions.topic).notify,
            (_add_partitions.class).segment,
            1,
            '-infinity',
            pgq._segment_until(_add_partitions.class)
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
            group_id, partition, topic, consumer_group, partition_id, out_of_range
        )
        select
            g.group_id,
            a.partition,
            (_add_partitions.topic).topic,
            g.consumer_group,
            a.partition_id,
            g.out_of_range
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

comment on function pgq._add_partitions(pgq.topic, pgq.storage_class, integer, integer) is
'Adds partitions to a topic whose class the caller has locked; its groups read them from their first
message.';

-- ==== sql/log/_lock_topic.sql

create function pgq._lock_topic(topic text)
returns pgq.topic
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.topic;
begin
    loop
        -- Publishers may need the row of the topic while they hold a partition, so it comes behind
        -- the partitions.
        perform
        from pgq.partition as p
        where p.topic = _lock_topic.topic
        order by p.partition
        for update;

        select t.*
        into target
        from pgq.topic as t
        where t.topic = _lock_topic.topic
        for update;

        exit when target.topic_id is not null;
        perform pgq._check_topic(_lock_topic.topic);
    end loop;

    -- Partitions that were added in between.
    perform
    from pgq.partition as p
    where p.topic_id = target.topic_id
    order by p.partition
    for update;

    return target;
end
$$;

comment on function pgq._lock_topic(text) is
'Locks a topic and its partitions against all others until the transaction ends, and returns it.
Raises MQ001.';

-- ==== sql/log/_note_leftovers.sql

create function pgq._note_leftovers(topic_id bigint, retention interval, dropped boolean)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if _note_leftovers.retention is null then
        -- Kept for ever again, except for what is not visible any more. Whoever removes something
        -- holds its row; what it hides is seen by the next statement.
        perform
        from pgq.leftover as o
        inner join pgq.partition as p on p.partition_id = o.partition_id
        where p.topic_id = _note_leftovers.topic_id
        order by o.partition_id, o.segment, o.first_offset
        for update of o;

        delete from pgq.leftover as o
        using pgq.partition as p, pgq.segment_range as r
        where p.topic_id = _note_leftovers.topic_id
            and o.partition_id = p.partition_id
            and r.partition_id = p.partition_id
            and r.first_offset = o.first_offset;
        return;
    end if;

    insert into pgq.leftover (partition_id, segment, first_offset, last_offset, remove_at)
    select
        r.stored_partition_id,
        r.segment,
        r.first_offset - r.shift,
        r.next_first_offset - 1 - r.shift,
        pgq._clock() + _note_leftovers.retention
    from (
        select
            s.*,
            coalesce(
                lead(s.first_offset) over (partition by s.partition_id order by s.first_offset),
                9223372036854775807
            ) as next_first_offset
        from pgq.partition as p
        inner join pgq.segment_range as s on s.partition_id = p.partition_id
        where p.topic_id = _note_leftovers.topic_id
    ) as r
    inner join pgq.segment as g on g.segment = r.segment
    inner join pgq.storage_class as c on c.storage_class_id = g.storage_class_id
    where c.retention is null
        -- What a partition still writes to is noted when it has left it.
        and (r.next_first_offset < 9223372036854775807 or _note_leftovers.dropped)
    on conflict (partition_id, segment, first_offset) do update
    set remove_at = least(leftover.remove_at, excluded.remove_at);
end
$$;

comment on function pgq._note_leftovers(bigint, interval, boolean) is
'Notes what a topic that has a retention now, or is dropped, stored without one, to be removed after
that time; or, without a retention, takes such notes back.';

-- ==== sql/log/create_topic.sql

create function pgq.create_topic(
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
                'idempotency_window', create_topic.idempotency_window
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
        idempotency_window
    )
    values (
        create_topic.topic,
        settings.partitions,
        class.storage_class_id,
        settings.notify,
        pgq._clock(),
        pgq._clock(),
        settings.idempotency_window
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
            create_topic.no_limit
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

comment on function pgq.create_topic(
    text, integer, interval, bigint, boolean, interval, text[]
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
settings that shall have no limit: retention (messages are kept for ever), max_bytes. Topics with
one retention share their storage; use few different ones. So that it can be called at each start of
an application, settings that are not given are not compared.
Errors: MQ005 the topic exists with other settings than those given, 22004 a required argument is
null, 22023 bad name or setting, 40001 above READ COMMITTED when another transaction was first
(try again).';

-- ==== sql/log/alter_topic.sql

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

    group_ids := array(
        select g.group_id from pgq.consumer_group as g where g.topic_id = target.topic_id
    );
    perform pgq._note_leftovers(target.topic_id, '0', true);

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
Errors: MQ001 unknown topic, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';

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
    out_of_range text default null
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
    new_id bigint;
    existing pgq.group_info;
begin
    perform pgq._check_name('consumer_group', create_group.consumer_group collate "C");
    if create_group.start collate "C" not in ('earliest', 'latest') then
        raise exception 'argument "start" must be earliest or latest'
            using errcode = '22023';
    end if;
    perform pgq._check_out_of_range(create_group.out_of_range collate "C");

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
            jsonb_build_object('out_of_range', create_group.out_of_range),
            null,
            to_jsonb(existing)
        );
        return next existing;
        return;
    end if;

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

    insert into pgq.consumer_group (
        topic_id, consumer_group, out_of_range, created_at, updated_at
    )
    values (
        target.topic_id,
        create_group.consumer_group,
        coalesce(create_group.out_of_range, 'error'),
        pgq._clock(),
        pgq._clock()
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
            create_group.out_of_range
        ) as c;
        return;
    end if;

    insert into pgq.group_partition (
        group_id, partition, topic, consumer_group, partition_id, out_of_range
    )
    select
        new_id,
        p.partition,
        target.topic,
        create_group.consumer_group,
        p.partition_id,
        coalesce(create_group.out_of_range, 'error')
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

comment on function pgq.create_group(text, text, text, text) is
'Creates a consumer group and returns it; one that exists is returned if the given settings agree.
start: earliest (from the oldest message kept, the default) or latest (only what is published from
now on); of a group that exists it is not compared. out_of_range: what happens when retention
removed messages that the group has not read: error (MQ004 until seek, the default), or skip to the
oldest that is there.
Errors: MQ001 unknown topic, MQ005 the group exists with another out_of_range than the given one,
22004 a required argument is null, 22023 bad name or setting, 40001 above READ COMMITTED when
another transaction was first, or at any level when retention removes what is being read (try
again).';

-- ==== sql/log/alter_group.sql

create function pgq.alter_group(
    topic text,
    consumer_group text,
    out_of_range text default null
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
    target_id bigint;
begin
    perform pgq._check_out_of_range(alter_group.out_of_range collate "C");

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

        update pgq.topic as t
        set updated_at = t.updated_at
        where t.topic = alter_group.topic collate "C"
        returning t.topic_id
        into target_id;

        update pgq.consumer_group as g
        set
            out_of_range = coalesce(alter_group.out_of_range, g.out_of_range),
            updated_at = pgq._clock()
        where g.topic_id = target_id
            and g.consumer_group = alter_group.consumer_group collate "C"
        returning g.group_id
        into target_id;

        exit when target_id is not null;
        -- Where this finds it, it was dropped and created again while this call waited.
        perform pgq._check_group(alter_group.topic collate "C", alter_group.consumer_group, null);
    end loop;

    update pgq.group_partition as l
    set out_of_range = coalesce(alter_group.out_of_range, l.out_of_range)
    where l.group_id = target_id;

    return query
    select i.*
    from pgq._group_info(alter_group.topic collate "C", alter_group.consumer_group) as i;
end
$$;

comment on function pgq.alter_group(text, text, text) is
'Changes settings of a consumer group and returns it; what is null stays as it is.
See create_group for the settings. It waits for transactions that consume for the group.
Errors: MQ001 unknown topic, MQ003 unknown group, 22004 a required argument is null, 22023 bad
setting, 40001 above READ COMMITTED when another transaction was first (try again).';

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
    loop
        -- Members end first. Only then the topic, which an alter_topic that adds partitions to its
        -- groups locks.
        perform
        from pgq.group_partition as l
        where l.topic = drop_group.topic collate "C"
            and l.consumer_group = drop_group.consumer_group collate "C"
        order by l.partition
        for update;

        perform pgq._check_positions(
            drop_group.topic collate "C", drop_group.consumer_group
        );

        perform
        from pgq.topic as t
        where t.topic = drop_group.topic collate "C"
        for share;

        delete from pgq.consumer_group as g
        using pgq.topic as t
        where t.topic = drop_group.topic collate "C"
            and g.topic_id = t.topic_id
            and g.consumer_group = drop_group.consumer_group collate "C"
        returning g.group_id
        into target_id;

        exit when target_id is not null;
        -- Where this finds it, it was dropped and created again while this call waited.
        perform pgq._check_group(drop_group.topic collate "C", drop_group.consumer_group, null);
    end loop;

    delete from pgq.group_position as j
    where j.group_id = target_id;
end
$$;

comment on function pgq.drop_group(text, text) is
'Removes a consumer group with its positions; waits for transactions that consume for it.
Errors: MQ001 unknown topic, MQ003 unknown group, 22004 a required argument is null, 40001 above
READ COMMITTED when another transaction was first (try again).';

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
        and not exists (select from pgq.topic as t where t.topic = list_groups.topic collate "C")
    then
        perform pgq._fail_unknown_topic(list_groups.topic collate "C");
    end if;

    return query
    select t.topic, g.consumer_group, g.out_of_range, g.created_at, g.updated_at
    from pgq.topic as t
    inner join pgq.consumer_group as g on g.topic_id = t.topic_id
    where t.topic = coalesce(list_groups.topic collate "C", t.topic)
    order by t.topic, g.consumer_group;
end
$$;

comment on function pgq.list_groups(text) is
'The consumer groups of a topic, or of all topics, by name.
Errors: MQ001 unknown topic.';

-- ==== sql/log/_ring.sql

create function pgq._ring()
returns integer
language sql
stable
parallel safe
as $$
select ((pg_backend_pid()::bigint * 633 + date_part('epoch', now())::bigint * 389) % 1024)::integer
$$;

comment on function pgq._ring() is
'Where on the ring of partitions this session begins to look, at this second.
Sessions begin at different places, and all move on every second: so they seldom meet, and one
publisher alone still fills every partition.';

-- ==== sql/log/_free_ring.sql

create function pgq._free_ring(topic text, partition integer, partitions integer)
returns integer
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    place integer := _free_ring.partition * 1024 / _free_ring.partitions;
begin
    -- Its own place, or the next one behind it: of two at one place, one would never be chosen.
    while exists (
        select
        from pgq.partition as p
        where p.topic = _free_ring.topic
            and p.ring = place
            and p.partition <> _free_ring.partition
    ) loop
        place := (place + 1) % 1024;
    end loop;
    return place;
end
$$;

comment on function pgq._free_ring(text, integer, integer) is
'The place on the ring for a partition of a topic that has so many; those that still stand where
they stood with fewer keep theirs.';

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
            p.notify
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
            p.notify
        into state
        from pgq.partition as p
        where p.topic = _lock_partition.topic
        order by (start_at - p.ring + 1024) % 1024
        limit 1
        for no key update skip locked;

        if state.partition is null then
            -- All are held: wait for the one that this session began with.
            select p.partitions
            into partition_count
            from pgq.partition as p
            where p.topic = _lock_partition.topic
                and p.partition = 0;

            if partition_count is not null then
                return pgq._lock_partition(
                    _lock_partition.topic, start_at % partition_count, null
                );
            end if;
        end if;
    end if;

    if state.partition is null then
        perform pgq._fail_unknown_partition(t.topic, _lock_partition.partition, t.partitions)
        from pgq.topic as t
        where t.topic = _lock_partition.topic
            and _lock_partition.partition not between 0 and t.partitions - 1;

        if exists (select from pgq.topic as t where t.topic = _lock_partition.topic) then
            -- It was dropped and created again while this call waited for it.
            return pgq._lock_partition(
                _lock_partition.topic, _lock_partition.partition, _lock_partition.key
            );
        end if;

        perform pgq._fail_unknown_topic(_lock_partition.topic);
    end if;

    if state.segment_until <= pgq._clock() then
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
    notify boolean;
    locked integer := 0;
    place integer := 0;
begin
    -- The rows are locked below, and looked at again.
    select p.topic_id, p.partitions
    into target
    from pgq.partition as p
    where p.topic = _publish_spread.topic
        and p.partition = 0;

    if target.topic_id is null then
        perform pgq._fail_unknown_topic(_publish_spread.topic);
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
            p.notify
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
        notify := state.notify;
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

    if notify then
        perform pg_notify('pgq_topic', _publish_spread.topic);
    end if;
end
$$;

comment on function pgq._publish_spread(
    text, jsonb[], text[], jsonb[], integer, integer, bytea[]
) is
'The part of publish_batch that writes to several partitions; locks them in ascending order.
keyless: where messages without a key go; null: to any of these partitions.';

-- ==== sql/log/_publish_keyed.sql

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

comment on function pgq._publish_keyed(
    text, jsonb[], text[], jsonb[], integer, text[], bytea[]
) is
'The part of publish and publish_batch that knows idempotency keys: publishes the messages that are
new, and returns where all of them stand, in the order of the array.';

-- ==== sql/log/publish_batch.sql

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

    state := pgq._lock_partition(publish_batch.topic collate "C", publish_batch.partition, null);

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

    if state.notify then
        perform pg_notify('pgq_topic', publish_batch.topic);
    end if;

    return next published;
end
$$;

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
true say where such ones stand. An empty array writes nothing.
Errors: MQ001 unknown topic, MQ007 unknown partition, 22004 a required argument is null, no
content, or a null in it, 22023 two contents, arrays of other lengths, headers that are no objects,
or a bad idempotency key, 40001 above READ COMMITTED when another transaction was first (try
again).';

-- ==== sql/log/publish.sql

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
    leaf integer;
    first_offset bigint;
    entered_at timestamptz;
    until timestamptz;
    newest_offset bigint;
    newest_at timestamptz;
    notify boolean;
    state pgq._partition_state;
    published pgq.publish_result;
begin
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
                payloads => case when publish.payload is not null then array[publish.payload] end,
                keys => array[publish.key],
                headers => array[publish.headers],
                partition => publish.partition,
                bodies => case when publish.body is not null then array[publish.body] end
            ) as b;
            return;
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
            p.notify,
            false
        into
            published.partition,
            home_id,
            leaf,
            first_offset,
            entered_at,
            until,
            notify,
            published.duplicate
        from pgq.partition as p
        where p.topic = publish.topic collate "C"
            and p.ring <= place
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
            p.notify,
            false
        into
            published.partition,
            home_id,
            leaf,
            first_offset,
            entered_at,
            until,
            notify,
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
        for no key update;
    end if;

    if (until > pgq._clock() and not notify) is not true then
        if (until > pgq._clock()) is not true then
            state := pgq._lock_partition(publish.topic collate "C", publish.partition, publish.key);
            published.partition := state.partition;
            published.duplicate := false;
            home_id := state.partition_id;
            leaf := state.segment;
            first_offset := state.segment_first_offset;
            entered_at := state.segment_entered_at;
            notify := state.notify;
        end if;
        if notify then
            perform pg_notify('pgq_topic', publish.topic);
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

comment on function pgq.publish(text, jsonb, text, jsonb, integer, text, bytea) is
'Appends one message to a topic, and returns its partition and offset.
Pass payload (JSON) or body (raw bytes), not both. The message goes to the partition that is
named, else to the one that its key belongs to, else to any that is free. That partition is then
locked for other publishers until the transaction ends: publish last, or commit soon. An
idempotency_key (1 to 255 characters) stands for the message that it was given with first, in
whichever partition, for the idempotency_window of the topic: another call with it writes nothing,
whatever its other arguments are, and returns where that message stands as a duplicate. It waits for
a transaction that is publishing that message.
Errors: MQ001 unknown topic, MQ007 unknown partition, 22004 a required argument is null, or no
content, 22023 two contents, headers that are no object, or a bad idempotency_key, 40001 above READ
COMMITTED when another transaction was first (try again).';

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
begin
    loop
        if _lock_group.partition is not null then
            select l.group_id, l.partition, l.partition_id, l.out_of_range
            into state.group_id, state.partition, state.partition_id, state.out_of_range
            from pgq.group_partition as l
            where l.topic = _lock_group.topic
                and l.consumer_group = _lock_group.consumer_group
                and l.partition = _lock_group.partition
            for no key update;
        else
            -- Of the partitions that have something to read and that no member holds, the one that
            -- was read longest ago.
            select l.group_id, l.partition, l.partition_id, l.out_of_range
            into state.group_id, state.partition, state.partition_id, state.out_of_range
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
            perform pgq._check_group(
                _lock_group.topic, _lock_group.consumer_group, _lock_group.partition
            );
            -- The named partition exists: it was dropped and created again while this call waited.
            continue when _lock_group.partition is not null;

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
            pgq._last_offset(p.partition_id, p.segment, p.segment_first_offset),
            j.seq,
            j.next_offset,
            j.leased_until,
            j.lease_token,
            j.lease_last_offset
        into
            state.segment,
            state.segment_first_offset,
            state.last_offset,
            state.seq,
            state.next_offset,
            state.leased_until,
            state.lease_token,
            state.lease_last_offset
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

    return found;
end
$$;

comment on function pgq._append_position(pgq._group_state, bigint, timestamptz, uuid) is
'Notes a new position or lease of a group in a partition whose row the caller has locked.
Under REPEATABLE READ another member''s newer row makes it raise 40001.';

-- ==== sql/log/_keep_position.sql

create function pgq._keep_position(state pgq._group_state)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        perform pgq._append_position(
            _keep_position.state,
            (_keep_position.state).next_offset,
            (_keep_position.state).leased_until,
            (_keep_position.state).lease_token
        );
    end if;
end
$$;

comment on function pgq._keep_position(pgq._group_state) is
'For a call that changes nothing: above READ COMMITTED it notes the position as it is all the same,
so that a snapshot that does not show the newest one raises 40001.';

-- ==== sql/log/_check_positions.sql

create function pgq._check_positions(topic text, consumer_group text)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- What the snapshot does not show of a journal would stay behind for ever.
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        perform pgq._keep_position(
            pgq._lock_group(l.topic, l.consumer_group, l.partition, false)
        )
        from pgq.group_partition as l
        where l.topic = _check_positions.topic
            and l.consumer_group
            = coalesce(_check_positions.consumer_group, l.consumer_group);
    end if;
end
$$;

comment on function pgq._check_positions(text, text) is
'Called before the positions of a group, or of all groups of a topic, are removed and when their
rows are locked: above READ COMMITTED it raises 40001 when the snapshot does not show them all.';

-- ==== sql/log/_claim_any.sql

create function pgq._claim_any(
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

        claimed.partition := state.partition;
        claimed.partition_id := state.partition_id;
        claimed.last_offset := least(
            state.last_offset, claimed.first_offset + wanted - 1
        );
        if _claim_any.lease is not null then
            claimed.lease_token := gen_random_uuid();
            claimed.leased_until := pgq._clock() + _claim_any.lease;
            state.lease_last_offset := claimed.last_offset;
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
'What _claim does when it has to look further: at other partitions, at older segments, or at the
partition that was named.';

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
    -- written to now. _claim_any knows the others. A few plain statements take less time than one that
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
            and g.consumer_group = _claim.consumer_group collate "C";

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

comment on function pgq._claim(text, text, integer, integer, interval) is
'The common part of claim_offsets and poll: takes the next messages of a partition for a group,
permanently when lease is null. Null: nothing to read. Its segment is null when they may stand in
several.';

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
        claim_offsets.topic collate "C",
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
to be read with fetch_range; no row when there is nothing to read for this member now. If the
transaction is rolled back, or the client dies, the messages are delivered again. Without a
partition it takes one that has messages and that no other member holds, so members can join and
leave at any time; other members skip that partition until this transaction ends. max_messages: 1 to
1000000.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 retention has removed the next message,
MQ007 unknown partition, 22004 a required argument is null, 22023 bad max_messages, 40001
above READ COMMITTED when another transaction was first, or at any level when retention removes
what is being read (try again).';

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
    read_rows bigint;
begin
    if fetch_range.first_offset is null or fetch_range.last_offset is null then
        raise exception 'argument "%" must not be null',
            case when fetch_range.first_offset is null then 'first_offset' else 'last_offset' end
            using errcode = '22004';
    end if;

    select p.*
    into place
    from pgq.partition as p
    where p.topic = fetch_range.topic collate "C"
        and p.partition = fetch_range.partition;

    if place.partition_id is null then
        perform pgq._fail_unknown_partition(t.topic, fetch_range.partition, t.partitions)
        from pgq.topic as t
        where t.topic = fetch_range.topic collate "C";

        perform pgq._fail_unknown_topic(fetch_range.topic collate "C");
    end if;

    if fetch_range.first_offset > fetch_range.last_offset then
        return;
    end if;

    if fetch_range.first_offset >= place.segment_first_offset then
        if place.segment = 0 then
            return query
            select
                fetch_range.partition,
                m.log_offset,
                m.published_at,
                m.key,
                m.headers,
                m.payload,
                m.body
            from pgq.message_0 as m
            where m.partition_id = place.partition_id
                and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
            order by m.log_offset;
        elsif place.segment = 1 then
            return query
            select
                fetch_range.partition,
                m.log_offset,
                m.published_at,
                m.key,
                m.headers,
                m.payload,
                m.body
            from pgq.message_1 as m
            where m.partition_id = place.partition_id
                and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
            order by m.log_offset;
        elsif place.segment <= 3 then
            if place.segment <= 2 then
                return query
                select
                    fetch_range.partition,
                    m.log_offset,
                    m.published_at,
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_2 as m
                where m.partition_id = place.partition_id
                    and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
                order by m.log_offset;
            else
                return query
                select
                    fetch_range.partition,
                    m.log_offset,
                    m.published_at,
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_3 as m
                where m.partition_id = place.partition_id
                    and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
                order by m.log_offset;
            end if;
        elsif place.segment <= 7 then
            if place.segment <= 5 then
                if place.segment <= 4 then
                    return query
                    select
                        fetch_range.partition,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_4 as m
                    where m.partition_id = place.partition_id
                        and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
                    order by m.log_offset;
                else
                    return query
                    select
                        fetch_range.partition,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_5 as m
                    where m.partition_id = place.partition_id
                        and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
                    order by m.log_offset;
                end if;
            else
                if place.segment <= 6 then
                    return query
                    select
                        fetch_range.partition,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_6 as m
                    where m.partition_id = place.partition_id
                        and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
                    order by m.log_offset;
                else
                    return query
                    select
                        fetch_range.partition,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_7 as m
                    where m.partition_id = place.partition_id
                        and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
                    order by m.log_offset;
                end if;
            end if;
        elsif place.segment <= 15 then
            if place.segment <= 11 then
                if place.segment <= 9 then
                    if place.segment <= 8 then
                        return query
                        select
                            fetch_range.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_8 as m
                        where m.partition_id = place.partition_id
                            and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
                        order by m.log_offset;
                    else
                        return query
                        select
                            fetch_range.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_9 as m
                        where m.partition_id = place.partition_id
                            and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
                        order by m.log_offset;
                    end if;
                else
                    if place.segment <= 10 then
                        return query
                        select
                            fetch_range.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_10 as m
                        where m.partition_id = place.partition_id
                            and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
                        order by m.log_offset;
                    else
                        return query
                        select
                            fetch_range.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_11 as m
                        where m.partition_id = place.partition_id
                            and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
                        order by m.log_offset;
                    end if;
                end if;
            else
                if place.segment <= 13 then
                    if place.segment <= 12 then
                        return query
                        select
                            fetch_range.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_12 as m
                        where m.partition_id = place.partition_id
                            and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
                        order by m.log_offset;
                    else
                        return query
                        select
                            fetch_range.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_13 as m
                        where m.partition_id = place.partition_id
                            and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
                        order by m.log_offset;
                    end if;
                else
                    if place.segment <= 14 then
                        return query
                        select
                            fetch_range.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_14 as m
                        where m.partition_id = place.partition_id
                            and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
                        order by m.log_offset;
                    else
                        return query
                        select
                            fetch_range.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_15 as m
                        where m.partition_id = place.partition_id
                            and m.log_offset between fetch_range.first_offset and fetch_range.last_offset
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
            $leaf$, place.segment)
            using fetch_range.partition, place.partition_id, fetch_range.first_offset, fetch_range.last_offset;
        end if;
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
    get diagnostics read_rows = row_count;

    -- Never less than was asked for without a word: offsets have no gaps.
    if fetch_range.first_offset + read_rows <= fetch_range.last_offset then
        perform pgq._fail_out_of_range(
            fetch_range.topic collate "C",
            fetch_range.partition,
            case
                when fetch_range.first_offset < s.first_available
                    or fetch_range.last_offset <= s.last_available
                    then fetch_range.first_offset
                else greatest(fetch_range.first_offset, s.last_available + 1)
            end,
            s.first_available,
            s.last_available,
            false
        )
        from (
            select
                pgq._first_available(place.partition_id) as first_available,
                pgq._last_offset(place.partition_id, place.segment, place.segment_first_offset)
                    as last_available
        ) as s;
    end if;
end
$$;

comment on function pgq.fetch_range(text, integer, bigint, bigint) is
'Returns the messages of a partition from first_offset to last_offset, both included, in order.
Reads only: no position moves, and it works on a standby. An empty range (first above last) gives
no rows.
Errors: MQ001 unknown topic, MQ004 a part of the range is not there: removed by retention, not yet
published, or not yet replicated (DETAIL has the available offsets), MQ007 unknown partition,
22004 a required argument is null, 40001 when retention removes what is being read (try again).';

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
    -- written to now. _claim_any knows the others. A few plain statements take less time than one that
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
            and g.consumer_group = consume.consumer_group collate "C";

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

comment on function pgq.consume(text, text, integer, integer) is
'Takes the next messages for a consumer group, moves its position past them, and returns them.
It is claim_offsets and fetch_range in one. The position moves in this transaction: what the caller
writes in it happens exactly once for each message, and after a rollback the messages are given out
again. No row: nothing to read for this member now. All rows are of one partition, in order.
max_messages: 1 to 1000000.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 retention has removed the next message,
MQ007 unknown partition, 22004 a required argument is null, 22023 bad max_messages, 40001 above
READ COMMITTED when another transaction was first, or at any level when retention removes what is
being read (try again).';

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
    room bigint := coalesce("fetch".max_messages, 100);
    last_offset bigint;
    first_available bigint;
    read_rows bigint;
begin
    perform pgq._check_count('max_messages', room, 1, 1000000);
    perform pgq._check_group("fetch".topic collate "C", "fetch".consumer_group, "fetch".partition);

    for place in
        select
            p.partition,
            p.partition_id,
            p.segment_first_offset,
            l.out_of_range,
            q.next_offset,
            pgq._last_offset(p.partition_id, p.segment, p.segment_first_offset) as newest_offset
        from pgq.group_partition as l
        inner join pgq.partition as p on p.partition_id = l.partition_id
        cross join lateral (
            select j.next_offset
            from pgq.group_position as j
            where j.group_id = l.group_id
                and j.partition = l.partition
            order by j.seq desc
            limit 1
        ) as q
        where l.topic = "fetch".topic collate "C"
            and l.consumer_group = "fetch".consumer_group collate "C"
            and l.partition = coalesce("fetch".partition, l.partition)
        order by l.partition
    loop
        if place.next_offset < place.segment_first_offset then
            first_available := pgq._first_available(place.partition_id);
            if place.next_offset < first_available then
                if place.out_of_range = 'error' then
                    perform pgq._fail_out_of_range(
                        "fetch".topic collate "C",
                        place.partition,
                        place.next_offset,
                        first_available,
                        place.newest_offset,
                        true
                    );
                end if;
                place.next_offset := first_available;
            end if;
        end if;

        last_offset := least(place.newest_offset, place.next_offset + room - 1);
        continue when last_offset < place.next_offset;

        return query
        select m.*
        from pgq._messages_across(
            place.partition_id, place.partition, place.next_offset, last_offset
        ) as m;
        get diagnostics read_rows = row_count;

        -- This call's snapshot is older than a truncation: it still shows the bounds, but not what
        -- stood between them.
        if read_rows <> last_offset - place.next_offset + 1 then
            if place.out_of_range = 'skip' then
                perform pgq._fail_truncated("fetch".topic collate "C");
            end if;
            perform pgq._fail_out_of_range(
                "fetch".topic collate "C",
                place.partition,
                place.next_offset,
                place.next_offset + 1,
                place.newest_offset,
                true
            );
        end if;

        room := room - (last_offset - place.next_offset + 1);
        exit when room = 0;
    end loop;
end
$$;

comment on function pgq.fetch(text, text, integer, integer) is
'Returns the next messages of a consumer group without moving its position.
Twice in a row it returns the same messages; commit_offset moves the position. Without a
partition, those of all partitions one after the other, up to max_messages (1 to 1000000). Use it
where the caller makes sure that each partition has one reader; poll does that by leases. Reads
only, so it works on a standby.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 retention has removed the next message,
MQ007 unknown partition, 22004 a required argument is null, 22023 bad max_messages, 40001 when
retention removes what is being read (try again).';

-- ==== sql/log/poll.sql

create function pgq.poll(
    topic text,
    consumer_group text,
    max_messages integer default 100,
    partition integer default null,
    lease interval default '30 seconds'
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
    keep interval := coalesce(poll.lease, '30 seconds');
    claimed pgq._claim_state;
    read_rows bigint;
begin
    perform pgq._check_interval('lease', keep, false);

    claimed := pgq._claim(
        poll.topic collate "C", poll.consumer_group, poll.max_messages, poll.partition, keep
    );
    if claimed.partition is null then
        return;
    end if;

    if claimed.segment is not null then
        if claimed.segment = 0 then
            return query
            select
                claimed.lease_token,
                claimed.leased_until,
                claimed.partition,
                m.log_offset,
                m.published_at,
                m.key,
                m.headers,
                m.payload,
                m.body
            from pgq.message_0 as m
            where m.partition_id = claimed.partition_id
                and m.log_offset between claimed.first_offset and claimed.last_offset
            order by m.log_offset;
        elsif claimed.segment = 1 then
            return query
            select
                claimed.lease_token,
                claimed.leased_until,
                claimed.partition,
                m.log_offset,
                m.published_at,
                m.key,
                m.headers,
                m.payload,
                m.body
            from pgq.message_1 as m
            where m.partition_id = claimed.partition_id
                and m.log_offset between claimed.first_offset and claimed.last_offset
            order by m.log_offset;
        elsif claimed.segment <= 3 then
            if claimed.segment <= 2 then
                return query
                select
                    claimed.lease_token,
                    claimed.leased_until,
                    claimed.partition,
                    m.log_offset,
                    m.published_at,
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_2 as m
                where m.partition_id = claimed.partition_id
                    and m.log_offset between claimed.first_offset and claimed.last_offset
                order by m.log_offset;
            else
                return query
                select
                    claimed.lease_token,
                    claimed.leased_until,
                    claimed.partition,
                    m.log_offset,
                    m.published_at,
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_3 as m
                where m.partition_id = claimed.partition_id
                    and m.log_offset between claimed.first_offset and claimed.last_offset
                order by m.log_offset;
            end if;
        elsif claimed.segment <= 7 then
            if claimed.segment <= 5 then
                if claimed.segment <= 4 then
                    return query
                    select
                        claimed.lease_token,
                        claimed.leased_until,
                        claimed.partition,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_4 as m
                    where m.partition_id = claimed.partition_id
                        and m.log_offset between claimed.first_offset and claimed.last_offset
                    order by m.log_offset;
                else
                    return query
                    select
                        claimed.lease_token,
                        claimed.leased_until,
                        claimed.partition,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_5 as m
                    where m.partition_id = claimed.partition_id
                        and m.log_offset between claimed.first_offset and claimed.last_offset
                    order by m.log_offset;
                end if;
            else
                if claimed.segment <= 6 then
                    return query
                    select
                        claimed.lease_token,
                        claimed.leased_until,
                        claimed.partition,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_6 as m
                    where m.partition_id = claimed.partition_id
                        and m.log_offset between claimed.first_offset and claimed.last_offset
                    order by m.log_offset;
                else
                    return query
                    select
                        claimed.lease_token,
                        claimed.leased_until,
                        claimed.partition,
                        m.log_offset,
                        m.published_at,
                        m.key,
                        m.headers,
                        m.payload,
                        m.body
                    from pgq.message_7 as m
                    where m.partition_id = claimed.partition_id
                        and m.log_offset between claimed.first_offset and claimed.last_offset
                    order by m.log_offset;
                end if;
            end if;
        elsif claimed.segment <= 15 then
            if claimed.segment <= 11 then
                if claimed.segment <= 9 then
                    if claimed.segment <= 8 then
                        return query
                        select
                            claimed.lease_token,
                            claimed.leased_until,
                            claimed.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_8 as m
                        where m.partition_id = claimed.partition_id
                            and m.log_offset between claimed.first_offset and claimed.last_offset
                        order by m.log_offset;
                    else
                        return query
                        select
                            claimed.lease_token,
                            claimed.leased_until,
                            claimed.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_9 as m
                        where m.partition_id = claimed.partition_id
                            and m.log_offset between claimed.first_offset and claimed.last_offset
                        order by m.log_offset;
                    end if;
                else
                    if claimed.segment <= 10 then
                        return query
                        select
                            claimed.lease_token,
                            claimed.leased_until,
                            claimed.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_10 as m
                        where m.partition_id = claimed.partition_id
                            and m.log_offset between claimed.first_offset and claimed.last_offset
                        order by m.log_offset;
                    else
                        return query
                        select
                            claimed.lease_token,
                            claimed.leased_until,
                            claimed.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_11 as m
                        where m.partition_id = claimed.partition_id
                            and m.log_offset between claimed.first_offset and claimed.last_offset
                        order by m.log_offset;
                    end if;
                end if;
            else
                if claimed.segment <= 13 then
                    if claimed.segment <= 12 then
                        return query
                        select
                            claimed.lease_token,
                            claimed.leased_until,
                            claimed.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_12 as m
                        where m.partition_id = claimed.partition_id
                            and m.log_offset between claimed.first_offset and claimed.last_offset
                        order by m.log_offset;
                    else
                        return query
                        select
                            claimed.lease_token,
                            claimed.leased_until,
                            claimed.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_13 as m
                        where m.partition_id = claimed.partition_id
                            and m.log_offset between claimed.first_offset and claimed.last_offset
                        order by m.log_offset;
                    end if;
                else
                    if claimed.segment <= 14 then
                        return query
                        select
                            claimed.lease_token,
                            claimed.leased_until,
                            claimed.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_14 as m
                        where m.partition_id = claimed.partition_id
                            and m.log_offset between claimed.first_offset and claimed.last_offset
                        order by m.log_offset;
                    else
                        return query
                        select
                            claimed.lease_token,
                            claimed.leased_until,
                            claimed.partition,
                            m.log_offset,
                            m.published_at,
                            m.key,
                            m.headers,
                            m.payload,
                            m.body
                        from pgq.message_15 as m
                        where m.partition_id = claimed.partition_id
                            and m.log_offset between claimed.first_offset and claimed.last_offset
                        order by m.log_offset;
                    end if;
                end if;
            end if;
        else
            return query execute format($leaf$
                select
                    $1,
                    $2,
                    $3,
                    m.log_offset,
                    m.published_at,
                    m.key,
                    m.headers,
                    m.payload,
                    m.body
                from pgq.message_%1$s as m
                where m.partition_id = $4
                    and m.log_offset between $5 and $6
                order by m.log_offset
            $leaf$, claimed.segment)
            using claimed.lease_token, claimed.leased_until, claimed.partition, claimed.partition_id, claimed.first_offset, claimed.last_offset;
        end if;
    else
        return query
        select claimed.lease_token, claimed.leased_until, m.*
        from pgq._messages_across(
            claimed.partition_id, claimed.partition, claimed.first_offset, claimed.last_offset
        ) as m;
    end if;

    -- Cleanup may have emptied a segment since the claim.
    get diagnostics read_rows = row_count;
    if read_rows <> claimed.last_offset - claimed.first_offset + 1 then
        perform pgq._fail_truncated(poll.topic collate "C");
    end if;
end
$$;

comment on function pgq.poll(text, text, integer, integer, interval) is
'Leases a partition to the caller and returns the next messages of it.
The position does not move yet. Until the lease ends the other members of the group get other
partitions. commit_offset with the lease token moves the position; when the last message is
committed the partition is free again. extend_poll keeps it longer, release_poll gives it back, and
when the lease runs out another member gets the same messages. All rows are of one partition, in
order, with one token. No row: nothing to read for this member now. The lease is counted by the
clock, not from the begin of the transaction; commit before working, else nobody else sees the
lease. max_messages: 1 to 1000000; lease: more than 0.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 retention has removed the next message,
MQ007 unknown partition, 22004 a required argument is null, 22023 bad max_messages or lease, 40001
above READ COMMITTED when another transaction was first, or at any level when retention removes
what is being read (try again).';

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
    keep interval := coalesce(extend_poll.lease, '30 seconds');
    state pgq._group_state;
begin
    perform pgq._check_interval('lease', keep, false);
    perform pgq._check_lease_token(extend_poll.lease_token);
    if extend_poll.partition is null then
        perform pgq._fail_unknown_partition(extend_poll.topic collate "C", null, null);
    end if;

    state := pgq._lock_group(
        extend_poll.topic collate "C", extend_poll.consumer_group, extend_poll.partition, false
    );
    if extend_poll.lease_token is distinct from state.lease_token
        or state.leased_until <= pgq._clock()
    then
        perform pgq._keep_position(state);
        return false;
    end if;

    perform pgq._append_position(
        state,
        state.next_offset,
        greatest(state.leased_until, pgq._clock() + keep),
        state.lease_token
    );
    return true;
end
$$;

comment on function pgq.extend_poll(text, text, integer, uuid, interval) is
'Extends the lease of a partition that poll gave; false when that lease has ended.
It then lasts for the given time from now, or as long as before where that is longer. False: the
lease has run out, also when no other member got the partition, or was never the caller''s; stop
working on its messages.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ007 unknown partition, 22004 a required
argument is null, 22023 bad lease, 40001 above READ COMMITTED when another transaction was first
(try again).';

-- ==== sql/log/release_poll.sql

create function pgq.release_poll(
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

    perform pgq._append_position(state, state.next_offset, null, null);
    return true;
end
$$;

comment on function pgq.release_poll(text, text, integer, uuid) is
'Gives back a partition that poll leased; false when the caller does not hold it any more.
What was not committed goes to the next member at once. A lease that has run out still counts as
long as no other member got the partition.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ007 unknown partition, 22004 a required
argument is null, 40001 above READ COMMITTED when another transaction was first (try again).';

-- ==== sql/log/commit_offset.sql

create function pgq.commit_offset(
    topic text,
    consumer_group text,
    partition integer,
    committed_offset bigint,
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
        'committed_offset', commit_offset.committed_offset, 0, 9223372036854775806
    );
    if commit_offset.partition is null then
        perform pgq._fail_unknown_partition(commit_offset.topic collate "C", null, null);
    end if;

    state := pgq._lock_group(
        commit_offset.topic collate "C",
        commit_offset.consumer_group,
        commit_offset.partition,
        false
    );

    if commit_offset.committed_offset > state.last_offset then
        perform pgq._fail_out_of_range(
            commit_offset.topic collate "C",
            state.partition,
            commit_offset.committed_offset,
            pgq._first_available(state.partition_id),
            state.last_offset,
            false
        );
    end if;

    if commit_offset.committed_offset < state.next_offset then
        perform pgq._keep_position(state);
        return state.next_offset - 1;
    end if;

    -- A lease that has run out still counts as long as nobody else has taken the partition.
    if commit_offset.lease_token is distinct from state.lease_token
        and (commit_offset.lease_token is not null or state.leased_until > pgq._clock())
    then
        perform pgq._fail_lease_lost(
            commit_offset.topic collate "C", commit_offset.consumer_group, state.partition
        );
    end if;

    if commit_offset.lease_token is not null
        and commit_offset.committed_offset < state.lease_last_offset
    then
        perform pgq._append_position(
            state, commit_offset.committed_offset + 1, state.leased_until, state.lease_token
        );
    else
        perform pgq._append_position(state, commit_offset.committed_offset + 1, null, null);
    end if;

    return commit_offset.committed_offset;
end
$$;

comment on function pgq.commit_offset(text, text, integer, bigint, uuid) is
'Commits the offsets of a partition for a consumer group; MQ006 when another member has leased it.
committed_offset is the offset of the last message that the group has processed, 0 before the first.
The position, which is the offset that the group reads next, is one more. A lower one changes
nothing, so a repeated call is harmless; to go back use seek. It returns the committed offset. With
the lease token of poll, the lease ends when the last message that poll gave is committed; a lower
offset keeps the lease.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 committed_offset is above the newest
message, MQ006 the partition is leased to another member, or was since (it would get the messages
again), MQ007 unknown partition, 22004 a required argument is null, 22023 bad committed_offset,
40001 above READ COMMITTED when another transaction was first, or at any level when retention
removes what is being read (try again).';

-- ==== sql/log/seek.sql

create function pgq.seek(
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
        perform pgq._check_group(seek.topic collate "C", seek.consumer_group, seek.partition);

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
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 there is no such offset, MQ007 unknown
partition, 22004 a required argument is null, 22023 not exactly one target, or a bad one, 40001
above READ COMMITTED when another transaction was first, or at any level when retention removes
what is being read (try again).';

-- ==== sql/log/_clean_positions.sql

create function pgq._clean_positions()
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target record;
    trimmed bigint;
    budget bigint := 20000;
    keep_from bigint;
begin
    -- Each journal keeps its last 1000 rows.
    for target in
        select
            l.group_id,
            l.partition,
            l.topic,
            l.consumer_group,
            s.seq as first_seq,
            e.seq - 1000 as keep_from
        from pgq.group_partition as l
        cross join lateral (
            select k.seq
            from pgq.group_position as k
            where k.group_id = l.group_id
                and k.partition = l.partition
            order by k.seq desc
            limit 1
        ) as e
        cross join lateral (
            select k.seq
            from pgq.group_position as k
            where k.group_id = l.group_id
                and k.partition = l.partition
                and k.seq >= l.trimmed_seq
            order by k.seq
            limit 1
        ) as s
        where s.seq < e.seq - 1000
    loop
        -- A member that has this row locked is let be. The change of the row makes one whose
        -- snapshot is older than the trimming try again.
        perform
        from pgq.group_partition as l
        where l.group_id = target.group_id
            and l.partition = target.partition
        for no key update skip locked;
        continue when not found;

        -- The numbers have no gaps, so this is how many rows go.
        keep_from := least(target.keep_from, target.first_seq + budget);

        update pgq.group_partition as l
        set trimmed_seq = greatest(l.trimmed_seq, keep_from)
        where l.group_id = target.group_id
            and l.partition = target.partition;

        delete from pgq.group_position as j
        where j.group_id = target.group_id
            and j.partition = target.partition
            and j.seq < keep_from;
        get diagnostics trimmed = row_count;

        budget := budget - trimmed;
        return next row(
            'positions trimmed', target.topic || '/' || target.consumer_group, trimmed
        )::pgq.cleanup_action;

        if budget <= 0 then
            return next row('more', 'positions', 1)::pgq.cleanup_action;
            exit;
        end if;
    end loop;
end
$$;

comment on function pgq._clean_positions() is
'The part of cleanup that trims the journals of positions; each keeps its last 1000 rows. It removes
20000 rows at most.';

-- ==== sql/log/_void_leftovers.sql

create function pgq._void_leftovers()
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.leftover;
begin
    for target in
        select o.*
        from pgq.leftover as o
        inner join pgq.partition as p on p.partition_id = o.partition_id
        inner join pgq.segment_range as r
            on r.partition_id = o.partition_id
            and r.first_offset = o.first_offset
        inner join pgq.topic as t on t.topic_id = p.topic_id
        inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
        where c.retention is null
        for update of o skip locked
    loop
        -- A new statement: before the lock, the topic may have got a retention again, or another
        -- cleanup may have hidden this.
        delete from pgq.leftover as o
        where o.partition_id = target.partition_id
            and o.segment = target.segment
            and o.first_offset = target.first_offset
            and exists (
                select
                from pgq.partition as p
                inner join pgq.segment_range as r on r.partition_id = p.partition_id
                inner join pgq.topic as t on t.topic_id = p.topic_id
                inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
                where p.partition_id = o.partition_id
                    and r.first_offset = o.first_offset
                    and c.retention is null
            );
    end loop;
end
$$;

comment on function pgq._void_leftovers() is
'Takes back what alter_topic could not when a topic lost its retention: notes that a partition left
in a transaction that was still open, or that is younger than the snapshot of that call.';

-- ==== sql/log/_hide_leftover.sql

create function pgq._hide_leftover(leftover pgq.leftover)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- So that whoever takes the note back by an older snapshot cannot.
    update pgq.leftover as o
    set remove_at = o.remove_at
    where o.partition_id = (_hide_leftover.leftover).partition_id
        and o.segment = (_hide_leftover.leftover).segment
        and o.first_offset = (_hide_leftover.leftover).first_offset;

    delete from pgq.segment_range as r
    using pgq.segment_range as s
    where s.partition_id = (_hide_leftover.leftover).partition_id
        and s.segment = (_hide_leftover.leftover).segment
        and s.first_offset
        between (_hide_leftover.leftover).first_offset and (_hide_leftover.leftover).last_offset
        and r.partition_id = s.partition_id
        and r.first_offset <= s.first_offset
        and exists (
            select
            from pgq.segment_range as n
            where n.partition_id = s.partition_id
                and n.first_offset > s.first_offset
        );
end
$$;

comment on function pgq._hide_leftover(pgq.leftover) is
'Takes what is about to be removed, and what is older, out of sight of the readers of a partition.';

-- ==== sql/log/_forget_segment.sql

create function pgq._forget_segment(segment integer)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- Older messages that were to be kept longer, before the retention became shorter, go from
    -- sight with it. Those that were stored without a retention stand where nothing is emptied, so
    -- they are noted to be removed.
    with gone as (
        delete from pgq.segment_range as r
        using pgq.segment_range as s
        where s.segment = _forget_segment.segment
            and r.partition_id = s.partition_id
            and r.first_offset <= s.first_offset
        returning r.*
    )

    insert into pgq.leftover (partition_id, segment, first_offset, last_offset, remove_at)
    select
        o.stored_partition_id,
        o.segment,
        o.first_offset - o.shift,
        (
            select min(n.first_offset)
            from pgq.segment_range as n
            where n.partition_id = o.partition_id
                and n.first_offset > o.first_offset
        ) - 1 - o.shift,
        pgq._clock()
    from gone as o
    inner join pgq.segment as g on g.segment = o.segment
    inner join pgq.storage_class as c on c.storage_class_id = g.storage_class_id
    where c.retention is null
        and o.segment <> _forget_segment.segment
    on conflict (partition_id, segment, first_offset) do update
    set remove_at = least(leftover.remove_at, excluded.remove_at);
end
$$;

comment on function pgq._forget_segment(integer) is
'Lets the logs that reach into a segment that is emptied begin behind it.';

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

-- ==== sql/queue/_check_queue.sql

create function pgq._check_queue(queue text)
returns void
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
begin
    if not exists (select from pgq.queue as q where q.queue = _check_queue.queue) then
        perform pgq._fail_unknown_queue(_check_queue.queue);
    end if;
end
$$;

comment on function pgq._check_queue(text) is
'Raises MQ002 when there is no queue of this name, or 22004 when no name was given.
Whoever waited for the row of a queue and does not find it calls this, and looks again: it may have
been dropped and created again meanwhile.';

-- ==== sql/queue/_fail_job_lost.sql

create function pgq._fail_job_lost(job_ids bigint[])
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    raise exception 'jobs are not leased to this worker any more'
        using errcode = 'MQ006',
            detail = format(
                'Lost: %s.', array_to_string(_fail_job_lost.job_ids, ', ')
            ),
            hint = 'Nothing was finished or claimed. Finish the others with pgq.ack_batch.';
end
$$;

comment on function pgq._fail_job_lost(bigint[]) is
'Raises MQ006.';

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
    if array_ndims(_check_leases.job_ids) > 1 then
        raise exception 'argument "job_ids" must have one dimension'
            using errcode = '22023';
    end if;
    if _check_leases.job_ids is null or array_position(_check_leases.job_ids, null) is not null then
        raise exception 'argument "job_ids" must not be null or contain null'
            using errcode = '22004';
    end if;
    perform pgq._check_lease_token(_check_leases.lease_token);
end
$$;

comment on function pgq._check_leases(bigint[], uuid) is
'Refuses jobs that are named without their ids or without a lease token, or in an array of arrays
(22004, 22023).';

-- ==== sql/queue/_check_outcome.sql

create function pgq._check_outcome(outcome text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if length(_check_outcome.outcome) not between 1 and 63 then
        raise exception 'argument "outcome" must have 1 to 63 characters'
            using errcode = '22023';
    end if;
    if _check_outcome.outcome in ('acked', 'expired', 'cancelled') then
        raise exception 'argument "outcome" must be a word of your own'
            using errcode = '22023',
                detail = format('"%s" is what pgq itself notes.', _check_outcome.outcome);
    end if;
end
$$;

comment on function pgq._check_outcome(text) is
'Refuses an outcome that is empty or long, or one that only pgq itself notes (22023).';

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
        raise exception 'a label must have at most 255 characters'
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_label(text) is
'Refuses a label that is too long for its index (22023).';

-- ==== sql/queue/_check_unique_key.sql

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

comment on function pgq._check_unique_key(text) is
'Refuses a unique key that is empty or long (22023).';

-- ==== sql/queue/_check_unique_keys.sql

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

comment on function pgq._check_unique_keys(text[], integer) is
'Refuses unique keys that are empty or long, or not as many as the messages of a batch (22023).';

-- ==== sql/queue/_shortest.sql

create function pgq._shortest(length interval)
returns interval
language sql
immutable
parallel safe
as $$
select
    make_interval(
        days => (
            s.years * case when s.years < 0 then 366 else 365 end
            + case
                when s.months < 0 then
                    -('{31, 62, 92, 123, 153, 184, 215, 245, 276, 306, 337}'::integer[])[-s.months]
                when s.months > 0 then
                    ('{28, 59, 89, 120, 150, 181, 212, 242, 273, 303, 334}'::integer[])[s.months]
                else 0
            end
            + s.days
        )::integer
    )
    + (_shortest.length - date_trunc('day', _shortest.length))
    - case
        when s.years = 0 and s.months = 0 and s.days = 0 then interval '0'
        else interval '1 hour'
    end
from (
    select
        date_part('year', _shortest.length) as years,
        date_part('month', _shortest.length)::integer as months,
        date_part('day', _shortest.length) as days
) as s
$$;

comment on function pgq._shortest(interval) is
'The shortest that a length of time can be: so many months that follow each other have so many days
at least, those that are taken away at most, and a day of a change to summer time has 23 hours.';

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

comment on function pgq._check_queue_settings(pgq.queue_info) is
'Refuses settings that a queue cannot have (22023).';

-- ==== sql/queue/_check_rate_limit.sql

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

comment on function pgq._check_rate_limit(pgq.queue_info) is
'Refuses what says more about a rate_limit where there is none (22023).';

-- ==== sql/queue/_queue_info.sql

create function pgq._queue_info(queue text)
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
    q.max_leased,
    q.rate_limit,
    q.rate_interval,
    q.rate_burst,
    q.max_unfinished
from pgq.queue as q
where q.queue = _queue_info.queue
$$;

comment on function pgq._queue_info(text) is
'A queue and its settings; no row when there is none of that name.';

-- ==== sql/queue/_note_leftover_jobs.sql

create function pgq._note_leftover_jobs(
    queue_id bigint,
    partition_id bigint,
    retention_before interval,
    retention interval
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if _note_leftover_jobs.retention is null then
        -- Kept for ever again.
        delete from pgq.leftover as o
        where o.queue_id = _note_leftover_jobs.queue_id;
        return;
    end if;

    if _note_leftover_jobs.retention_before is not null then
        -- What it stored without one was noted when it got the one before.
        update pgq.leftover as o
        set
            remove_at = least(o.remove_at, pgq._clock() + _note_leftover_jobs.retention),
            noted_xid = pg_current_xact_id(),
            horizon = null
        where o.queue_id = _note_leftover_jobs.queue_id;
        return;
    end if;

    insert into pgq.leftover (
        partition_id, segment, first_offset, last_offset, queue_id, remove_at, noted_xid
    )
    select
        _note_leftover_jobs.partition_id,
        g.segment,
        0,
        9223372036854775807,
        _note_leftover_jobs.queue_id,
        pgq._clock() + _note_leftover_jobs.retention,
        pg_current_xact_id()
    from pgq.segment as g
    inner join pgq.storage_class as c on c.storage_class_id = g.storage_class_id
    where c.retention is null
        and c.owner_id is null
    on conflict (partition_id, segment, first_offset) do update
    set
        remove_at = least(leftover.remove_at, excluded.remove_at),
        noted_xid = excluded.noted_xid,
        horizon = null;
end
$$;

comment on function pgq._note_leftover_jobs(bigint, bigint, interval, interval) is
'Notes that a queue that has a retention now, or was dropped, may have stored jobs without one, to
be removed after that time; or, without a retention, takes such notes back.';

-- ==== sql/queue/_free_keys.sql

create function pgq._free_keys(job_ids bigint[])
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    delete from pgq.unique_job as u
    where u.job_id = any(_free_keys.job_ids);
end
$$;

comment on function pgq._free_keys(bigint[]) is
'Takes their unique keys from jobs, whose rows the caller has locked.';

-- ==== sql/queue/create_queue.sql

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
        candidate_xid
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
        '0'
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
does so too, until it is redriven and finished, or purged, or removed by retention. max_leased
(1 to 10000): claims get nothing while so many jobs are leased; by default no limit. rate_limit (1
to 1000000): claims get so many jobs per rate_interval (by default 1 second), and after a pause up
to rate_burst (1 to 1000000; by default the rate_limit) at once; by default no limit. Claims of such
a queue wait for each other until the transaction ends: they belong into short ones. max_unfinished:
enqueue fails with MQ010 while there are so many unfinished jobs; by default no limit. no_limit:
names of settings that shall have no limit: max_attempts, job_ttl, retention, max_leased,
rate_limit, max_unfinished. So that it can be called at each start of an application, settings that
are not given are not compared.
Errors: MQ005 the queue exists with other settings than those given, 22004 a required argument is
null, 22023 bad name or setting, 40001 above READ COMMITTED when another transaction was first
(try again).';

-- ==== sql/queue/alter_queue.sql

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
a dead letter that has kept its key keeps it. Where there was no retention before, what is finished
is kept for the new one from now on. A new idempotency_window counts for keys noted before as well,
from when each was noted; but what was noted by a shorter one is forgotten when that ends. A
max_leased below what is leased takes no job away: claims get nothing until it is less. rate_burst
follows the rate_limit unless it was given.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 bad setting, 40001 above
READ COMMITTED when another transaction was first (try again).';

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
returns setof pgq.queue_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    loop
        update pgq.queue as q
        set paused = true
        where q.queue = pause_queue.queue collate "C";

        exit when found;
        perform pgq._check_queue(pause_queue.queue collate "C");
    end loop;

    return query
    select i.*
    from pgq._queue_info(pause_queue.queue collate "C") as i;
end
$$;

comment on function pgq.pause_queue(text) is
'Stops handing out jobs of a queue until resume_queue, and returns the queue.
A paused queue stays paused. Enqueueing continues, and workers can still finish the jobs that they
have.
Errors: MQ002 unknown queue, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';

-- ==== sql/queue/resume_queue.sql

create function pgq.resume_queue(queue text)
returns setof pgq.queue_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    loop
        update pgq.queue as q
        set paused = false
        where q.queue = resume_queue.queue collate "C";

        exit when found;
        perform pgq._check_queue(resume_queue.queue collate "C");
    end loop;

    return query
    select i.*
    from pgq._queue_info(resume_queue.queue collate "C") as i;
end
$$;

comment on function pgq.resume_queue(text) is
'Hands out the jobs of a queue again after pause_queue, and returns the queue.
Nothing changes if it is not paused.
Errors: MQ002 unknown queue, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';

-- ==== sql/queue/purge_queue.sql

create function pgq.purge_queue(
    queue text,
    dead_only boolean default null,
    all_jobs boolean default null
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
    freed bigint[];
    keyed bigint[] := '{}';
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
    if coalesce(purge_queue.dead_only, false) = coalesce(purge_queue.all_jobs, false) then
        raise exception '"dead_only", "all_jobs": exactly one is needed'
            using errcode = '22023',
                hint = 'Pass dead_only => true, or all_jobs => true.';
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
                returning j.job_id, j.unique_key
            )

            select count(*), array_agg(p.job_id) filter (where p.unique_key is not null)
            into gone, freed
            from purged as p;
            removed := removed + gone;
            keyed := keyed || freed;
        end if;

        with doomed as materialized (
            select d.job_id
            from pgq.dead_job as d
            where d.queue_id = target_id
            order by d.job_id
            for update
        ),

        purged as (
            delete from pgq.dead_job as d
            using doomed as g
            where d.job_id = g.job_id
            returning d.job_id, d.unique_key
        )

        select count(*), array_agg(p.job_id) filter (where p.unique_key is not null)
        into gone, freed
        from purged as p;
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

comment on function pgq.purge_queue(text, boolean, boolean) is
'Removes unfinished jobs or dead letters of a queue, and returns how many.
dead_only => true: the dead letters. all_jobs => true: every unfinished job, leased and dead ones
too; a worker that still has one of them gets false from ack. Archived jobs stay, and so do
idempotency keys: one that was given with a removed job still stands for it.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 neither of both is true, or
both are, 25001 not under READ COMMITTED.';

-- ==== sql/queue/_due_at.sql

create function pgq._due_at(
    queue text,
    moment timestamptz,
    delay interval,
    run_at timestamptz,
    job_ttl interval
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
        raise exception '"delay" and "run_at" exclude each other'
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
    if due_at >= _due_at.moment + _due_at.job_ttl then
        raise exception 'the job would expire before it is due'
            using errcode = '22023',
                detail = format(
                    'The job_ttl of queue "%s" is %s.', _due_at.queue, _due_at.job_ttl
                );
    end if;
    return due_at;
end
$$;

comment on function pgq._due_at(text, timestamptz, interval, timestamptz, interval) is
'When a job with a delay or a time of its own may be claimed first; refuses what is not possible
(22023).';

-- ==== sql/queue/_enqueue_keyed.sql

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

-- ==== sql/queue/_take_key.sql

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

comment on function pgq._take_key(bigint, text, bigint, boolean) is
'Gives a job a unique key of its queue and returns its id, or that of the job that has the key.
waiting: that one is to wait until this transaction has ended, where claims give keys back.';

-- ==== sql/queue/_take_keys.sql

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

comment on function pgq._take_keys(bigint, text[], bigint[], boolean) is
'What _take_key does for many jobs; those without a key are returned themselves.';

-- ==== sql/queue/_check_room.sql

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

comment on function pgq._check_room(bigint, integer, bigint, bigint) is
'Raises MQ010 when a queue has too many unfinished jobs for so many new ones, of which last_id is
the highest. What other transactions are adding is not counted. Where max_unfinished is above 10000,
a count stands for 20 times as long as it took.';

-- ==== sql/queue/enqueue.sql

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
                return query
                select holder_id, true;
                return;
            end if;
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
        max_attempts
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
        enqueue.max_attempts
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
Errors: MQ002 unknown queue, MQ010 the queue has as many unfinished jobs as its max_unfinished
allows, 22004 a required argument is null, or no content, 22023 bad argument,
or the job would expire before it is due, 40001 above READ COMMITTED when another transaction was
first (try again).';

-- ==== sql/queue/enqueue_batch.sql

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

    select q.queue_id, q.partition_id, q.segment, q.delay, q.job_ttl, q.notify, q.max_unfinished
    into target_id, store_id, leaf, queue_delay, ttl, notify, room
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
        max_attempts
    )
    select
        b.job_id,
        target_id,
        store_id,
        b.job_id,
        moment + ttl,
        visible_at,
        leaf,
        0,
        coalesce(enqueue_batch.priority, 0),
        b.label,
        b.unique_key,
        enqueue_batch.max_attempts
    from (
        select
            unnest(ids) as job_id,
            unnest(enqueue_batch.labels) as label,
            unnest(enqueue_batch.unique_keys) as unique_key
    ) as b;

    return query
    select unnest(ids), false
    where holders is null;

    if notify then
        perform pg_notify('pgq_queue', enqueue_batch.queue);
    end if;
end
$$;

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
id of the job that it repeats. An empty array adds nothing.
Errors: MQ002 unknown queue, 22004 a required argument is null, no content, or a null in it, 22023
bad argument, arrays of other lengths, or the jobs would expire before they are due, 40001 above
READ COMMITTED when another transaction was first (try again).';

-- ==== sql/queue/_bury.sql

create function pgq._bury(job_ids bigint[], uncounted integer, lost boolean, error text)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    ran_out constant text := 'the lease of the last attempt ran out';
    freed bigint[];
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
            max_attempts
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
            g.max_attempts
        from gone as g
    )

    select array_agg(g.job_id)
    into freed
    from gone as g
    where g.unique_key is not null
        and (
            select q.unique_until
            from pgq.queue as q
            where q.queue_id = g.queue_id
        ) is distinct from 'removed';

    if freed is not null then
        perform pgq._free_keys(freed);
    end if;
end
$$;

comment on function pgq._bury(bigint[], integer, boolean, text) is
'Moves jobs, whose rows the caller has locked, to the dead ones. uncounted: deliveries that came to
nothing; lost: whether a lease ran out, which is added to the error of the last nack; null: where
the row has a lease token; error: what the worker says instead; null: nothing.';

-- ==== sql/queue/_bury_exhausted.sql

create function pgq._bury_exhausted(job_ids bigint[], max_attempts integer, moment timestamptz)
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

-- ==== sql/queue/_bury_front.sql

create function pgq._bury_front(
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

comment on function pgq._bury_front(
    bigint, integer, timestamptz[], bigint[], timestamptz, integer
) is
'Moves up to so many jobs that had all their attempts out of the way of a claim: of each priority,
those among the 1000 that come first.';

-- ==== sql/queue/_free_claimed.sql

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

comment on function pgq._free_claimed(bigint[]) is
'Takes their unique keys from jobs that are being claimed, where their queue says unique_until
claimed.';

-- ==== sql/queue/_lock_floor.sql

create function pgq._lock_floor(queue_id bigint)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- The snapshot of such a session may be older than the newest floors.
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        return false;
    end if;

    perform
    from pgq.queue_floor_lock as l
    where l.queue_id = _lock_floor.queue_id
    for no key update skip locked;

    return found;
end
$$;

comment on function pgq._lock_floor(bigint) is
'Locks the floors of a queue until the transaction ends; false: another transaction has them, or
this one cannot see the newest.';

-- ==== sql/queue/_raise_floor.sql

create function pgq._raise_floor(queue_id bigint, moment timestamptz)
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
        _raise_floor.queue_id,
        '',
        state.seq + 1,
        state.epoch,
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
        and f.label = ''
        and f.seq = state.seq - 63;
end
$$;

comment on function pgq._raise_floor(bigint, timestamptz) is
'Raises the floors of a queue as far as is proved safe.';

-- ==== sql/queue/_raise_label_floor.sql

create function pgq._raise_label_floor(queue_id bigint, label text, moment timestamptz)
returns void
language plpgsql
volatile
parallel unsafe
set jit = off
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

comment on function pgq._raise_label_floor(bigint, text, timestamptz) is
'Raises the floors of claims that ask for a label, and before them those of all claims.';

-- ==== sql/queue/_claims_so_far.sql

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

comment on function pgq._claims_so_far(bigint) is
'What a queue has handed out, and what its rate_limit allows now. The caller has its claim_lock.';

-- ==== sql/queue/_write_claims.sql

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

comment on function pgq._write_claims(pgq.claim_count, bigint[], boolean) is
'Adds to the journal of a queue that limits its claims, whose claim_lock the caller has. anew: these
are all jobs that may be leased; otherwise they come to those before.';

-- ==== sql/queue/_allowed_claims.sql

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

comment on function pgq._allowed_claims(bigint, integer) is
'How many of the wanted jobs a claim may take by max_leased and rate_limit of its queue. It locks
out other claims of the queue until the transaction ends.';

-- ==== sql/queue/_note_claims.sql

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

comment on function pgq._note_claims(bigint, bigint[]) is
'Counts the jobs of a claim, which _allowed_claims has allowed, against the limits of its queue.';

-- ==== sql/queue/_claim_jobs.sql

create function pgq._claim_jobs(
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
begin
    perform pgq._check_count('max_jobs', wanted, _claim_jobs.least_jobs, 100000);
    perform pgq._check_label(_claim_jobs.label);

    select
        q.queue_id,
        coalesce(_claim_jobs.lease, q.lease),
        coalesce(q.max_attempts, 2147483647),
        q.paused,
        q.max_leased is not null or q.rate_limit is not null,
        f.floor_times,
        f.floor_ids,
        f.recorded_at,
        f.epoch
    into
        target_id,
        keep,
        most_attempts,
        paused,
        limited,
        common_times,
        common_ids,
        common_raised_at,
        era
    from pgq.queue as q
    cross join lateral (
        select g.floor_times, g.floor_ids, g.recorded_at, g.epoch
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
    end if;

    if common_raised_at > moment and common_raised_at > pgq._clock() then
        -- The clock was set back, and whoever could start the floors again may be busy.
        common_times := array_fill('-infinity'::timestamptz, array[10]);
        common_ids := array_fill(0::bigint, array[10]);
        era := null;
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
                    max_attempts
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
                    g.max_attempts
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
                    max_attempts
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
                    g.max_attempts
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
                        max_attempts
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
                        g.max_attempts
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
                        max_attempts
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
                        g.max_attempts
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
                            max_attempts
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
                            g.max_attempts
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
                            max_attempts
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
                            g.max_attempts
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
                            max_attempts
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
                            g.max_attempts
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
                            max_attempts
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
                            g.max_attempts
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
                                max_attempts
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
                                g.max_attempts
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
                                max_attempts
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
                                g.max_attempts
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
                                max_attempts
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
                                g.max_attempts
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
                                max_attempts
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
                                g.max_attempts
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
                                max_attempts
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
                                g.max_attempts
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
                                max_attempts
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
                                g.max_attempts
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
                                max_attempts
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
                                g.max_attempts
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
                                max_attempts
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
                                g.max_attempts
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
                        max_attempts
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
                        g.max_attempts
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

comment on function pgq._claim_jobs(text, integer, integer, interval, text, boolean) is
'What claim_job and finish_and_claim do for many jobs, for other priorities than the first, and for
labels.';

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
        and q.max_leased is null
        and q.rate_limit is null
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

-- ==== sql/queue/_still_leased.sql

create function pgq._still_leased(job_ids bigint[], lease_token uuid)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    number bigint;
begin
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        -- What the snapshot shows is no proof. A row that was changed since cannot be locked, and
        -- one that it does not show cannot be inserted: both raise 40001. An id that was not given
        -- out yet is nobody's, and is left to the job that will have it.
        perform
        from pgq.job as j
        where j.job_id = any(_still_leased.job_ids)
        order by j.job_id
        for update;

        for number in
            select distinct r.job_id
            from unnest(_still_leased.job_ids) as r (job_id)
            where r.job_id <= pg_sequence_last_value('pgq.job_id')
            order by r.job_id
        loop
            insert into pgq.job (
                job_id,
                queue_id,
                partition_id,
                log_offset,
                visible_at,
                segment,
                attempt,
                priority
            )
            select number, 0, 0, 0, 'infinity', 0, 0, 0
            where not exists (select from pgq.job as j where j.job_id = number)
            on conflict do nothing;

            delete from pgq.job as j
            where j.job_id = number
                and j.queue_id = 0;
        end loop;
        return false;
    end if;

    return exists (
        select
        from pgq.job as j
        where j.job_id = any(_still_leased.job_ids)
            and j.lease_token = _still_leased.lease_token
    );
end
$$;

comment on function pgq._still_leased(bigint[], uuid) is
'Whether any of these jobs, which a statement did not find under this token, is held under it after
all. Above READ COMMITTED it raises 40001 where the snapshot is too old to tell.';

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
                    where (archive and g.segment <> 0) or g.unique_key is not null
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
                    where (archive and g.segment <> 1) or g.unique_key is not null
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
                        where (archive and g.segment <> 2) or g.unique_key is not null
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
                        where (archive and g.segment <> 3) or g.unique_key is not null
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
                            where (archive and g.segment <> 4) or g.unique_key is not null
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
                            where (archive and g.segment <> 5) or g.unique_key is not null
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
                            where (archive and g.segment <> 6) or g.unique_key is not null
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
                            where (archive and g.segment <> 7) or g.unique_key is not null
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
                                where (archive and g.segment <> 8) or g.unique_key is not null
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
                                where (archive and g.segment <> 9) or g.unique_key is not null
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
                                where (archive and g.segment <> 10) or g.unique_key is not null
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
                                where (archive and g.segment <> 11) or g.unique_key is not null
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
                                where (archive and g.segment <> 12) or g.unique_key is not null
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
                                where (archive and g.segment <> 13) or g.unique_key is not null
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
                                where (archive and g.segment <> 14) or g.unique_key is not null
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
                                where (archive and g.segment <> 15) or g.unique_key is not null
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
                        where ($6 and g.segment <> %1$s) or g.unique_key is not null
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
                select o.job_id
                from unnest(others) as o
                where o.unique_key is not null
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

comment on function pgq._finish(bigint[], uuid, text, jsonb, boolean) is
'Ends jobs whose lease token is current, archives them where asked, and returns the ids of those it
ended.';

-- ==== sql/queue/_finish_all.sql

create function pgq._finish_all(job_ids bigint[], lease_token uuid)
returns void
language plpgsql
volatile
parallel unsafe
set jit = off
as $$
#variable_conflict use_column
declare
    lost bigint[];
begin
    perform pgq._check_leases(_finish_all.job_ids, _finish_all.lease_token);

    lost := array(
        select r.job_id
        from unnest(_finish_all.job_ids) as r (job_id)
        except
        select f
        from pgq._finish(
            _finish_all.job_ids, _finish_all.lease_token, 'acked', null, false
        ) as f
    );
    if cardinality(lost) > 0 then
        perform pgq._fail_job_lost(lost);
    end if;
end
$$;

comment on function pgq._finish_all(bigint[], uuid) is
'Ends jobs as ack_batch does, or raises MQ006 when one of them is not held under the token.';

-- ==== sql/queue/finish_and_claim.sql

create function pgq.finish_and_claim(
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
        and q.max_leased is null
        and q.rate_limit is null,
        q.archive,
        q.partition_id
    into target_id, keep, most_attempts, token, moment, usual, archives, own_store_id
    from pgq.queue as q
    where q.queue = finish_and_claim.queue collate "C";

    if cardinality(finish_and_claim.job_ids) = 1 then
        -- Not one that has a unique key, which _finish takes away as well.
        delete from pgq.job as j
        where j.job_id = finish_and_claim.job_ids[1]
            and j.lease_token = finish_and_claim.lease_token
            and j.unique_key is null
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

-- ==== sql/queue/ack.sql

create function pgq.ack(job_id bigint, lease_token uuid)
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
    -- Not one that has a unique key, which _finish takes away as well.
    delete from pgq.job as j
    where j.job_id = ack.job_id
        and j.lease_token = ack.lease_token
        and j.unique_key is null
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

    -- Not found may mean that the job has a unique key, or that the row was replaced by a new one
    -- while this statement waited: by a heartbeat of the same worker, say. _finish looks again.
    perform pgq._check_lease(ack.job_id, ack.lease_token);
    return exists (
        select
        from pgq._finish(array[ack.job_id], ack.lease_token, 'acked', null, false)
    );
end
$$;

comment on function pgq.ack(bigint, uuid) is
'Finishes a job; false when the caller does not hold it any more.
The queue notes it among the archived jobs, unless its archive setting is off. False, and nothing
changed: the token is not that of the latest claim, or the job is finished already. A lease that
has run out still counts as long as no other worker got the job.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again).';

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
Errors: 22004 a required argument is null, or a null is in job_ids, 22023 job_ids of several
dimensions, 40001 above READ COMMITTED when another transaction was first (try again).';

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
    perform pgq._check_outcome(archive_job.outcome collate "C");

    return exists (
        select
        from pgq._finish(
            array[archive_job.job_id],
            archive_job.lease_token,
            coalesce(archive_job.outcome collate "C", 'archived'),
            archive_job.result,
            true
        )
    );
end
$$;

comment on function pgq.archive_job(bigint, uuid, text, jsonb) is
'Finishes a job with an outcome; false when the caller does not hold it any more.
It is noted among the archived jobs, whatever the archive setting of the queue. outcome: a word
of 1 to 63 characters, by default archived, but not acked, expired or cancelled, which pgq itself
notes; result: any JSON. False, and nothing changed: the token is not that of the latest claim, or
the job is finished already. A lease that has run out still counts as long as no other worker got
the job.
Errors: 22004 a required argument is null, 22023 bad outcome, 40001 above READ COMMITTED when
another transaction was first (try again).';

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
    perform pgq._check_outcome(archive_job_batch.outcome collate "C");

    return query
    select f
    from pgq._finish(
        archive_job_batch.job_ids,
        archive_job_batch.lease_token,
        coalesce(archive_job_batch.outcome collate "C", 'archived'),
        archive_job_batch.result,
        true
    ) as f;
end
$$;

comment on function pgq.archive_job_batch(bigint[], uuid, text, jsonb) is
'Finishes jobs of one claim, all with one outcome and result, and returns the ids of those finished.
See archive_job.
Errors: 22004 a required argument is null, or a null is in job_ids, 22023 bad outcome, or job_ids of
several dimensions, 40001 above READ COMMITTED when another transaction was first (try again).';

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

-- ==== sql/queue/_return_keys.sql

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

comment on function pgq._return_keys(bigint[]) is
'Gives jobs that wait again the unique keys that a claim took from them; those whose key another job
has by now go on without one. The caller has written their rows.';

-- ==== sql/queue/_nack.sql

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
                max_attempts
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
                g.max_attempts
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

comment on function pgq._nack(bigint[], uuid, interval, text, integer) is
'Gives jobs whose lease token is current back to their queue, or to the dead ones when their
attempts are used up, and returns their ids. uncounted: 1 where this attempt does not count.';

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
        from pgq._nack(
            array[nack.job_id], nack.lease_token, nack.delay, nack.error collate "C", 0
        )
    );
end
$$;

comment on function pgq.nack(bigint, uuid, interval, text) is
'Gives a job back to be tried again; false when the caller does not hold it any more.
delay: when it may be claimed again, 0 = at once; by default the backoff of the queue: its first
delay, doubled with every attempt, up to its cap, with some jitter. error: what went wrong; the
last one is kept with the job. A job that has had its max_attempts becomes a dead letter. False,
and nothing changed: the token is not that of the latest claim, or the job is finished already. A
lease that has run out still counts as long as no other worker got the job.
Errors: 22004 a required argument is null, 22023 bad delay, 40001 above READ COMMITTED when
another transaction was first (try again).';

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
        nack_batch.job_ids,
        nack_batch.lease_token,
        nack_batch.delay,
        nack_batch.error collate "C",
        0
    ) as n;
end
$$;

comment on function pgq.nack_batch(bigint[], uuid, interval, text) is
'Gives jobs of one claim back to be tried again, and returns the ids of those given back.
See nack.
Errors: 22004 a required argument is null, or a null is in job_ids, 22023 bad delay, or job_ids of
several dimensions, 40001 above READ COMMITTED when another transaction was first (try again).';

-- ==== sql/queue/release_job.sql

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

comment on function pgq.release_job(bigint, uuid) is
'Gives a job back unused; false when the caller does not hold it any more.
It is for a worker that stops before it has begun: the job is due at once, this attempt does not
count, and its last error stays. A job that failed is given back by nack. False, and nothing
changed: the token is not that of the latest claim, or the job is finished already. A lease that
has run out still counts as long as no other worker got the job.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again).';

-- ==== sql/queue/release_job_batch.sql

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

comment on function pgq.release_job_batch(bigint[], uuid) is
'Gives jobs of one claim back unused, and returns the ids of those given back; see release_job.
An id that is missing in the answer was not this worker''s any more.
Errors: 22004 a required argument is null, or a null is in job_ids, 22023 job_ids of several
dimensions, 40001 above READ COMMITTED when another transaction was first (try again).';

-- ==== sql/queue/reject_job.sql

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

comment on function pgq.reject_job(bigint, uuid, text) is
'Makes a job a dead letter now; false when the caller does not hold it any more.
It is for a job that no attempt can do, whatever attempts it has left. error: what is wrong with it;
null: the error of the last nack stays. redrive puts it back. False, and nothing changed: the token
is not that of the latest claim, or the job is finished already. A lease that has run out still
counts as long as no other worker got the job.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again).';

-- ==== sql/queue/cancel_job.sql

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

    if gone.unique_key is not null then
        perform pgq._free_keys(array[gone.job_id]);
    end if;
    return true;
end
$$;

comment on function pgq.cancel_job(bigint) is
'Cancels a job that is not finished; false when there is none of this id.
Nobody gets it any more. A worker that has it learns so by its next extend_lease, ack, nack or
archive_job, which is false then; what it has done by then it has done. The queue notes it among the
archived jobs with the outcome cancelled, unless its archive setting is off. False: it is finished,
cancelled or expired already, or a dead letter, or was never there. It may wait for the transaction
that has the row of the job: of a worker that claims it or finishes it.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again).';

-- ==== sql/queue/get_job.sql

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
                when held.visible_at <= moment then 'ready'
                else 'delayed'
            end;
            info.due_at := held.visible_at;
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

comment on function pgq.get_job(bigint) is
'A job that is not finished, or a dead letter, with its content; no row when there is none.
state: ready, leased, delayed, expired or dead, the words of queue_stats. A finished job has no row
here: the view archived_jobs has it, but to look there by job_id takes a look at all that is kept
there, since an index on it would cost every ack.
Errors: 22004 a required argument is null, 40001 when retention removes what is being read (try
again).';

-- ==== sql/queue/_extend_lease.sql

create function pgq._extend_lease(job_ids bigint[], lease_token uuid, lease interval)
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
                max_attempts
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
                g.max_attempts
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
'Extends the lease of a job; false when that lease has ended.
It then lasts for the given time from now, or as long as before where that is longer. lease: by
default that of the queue. False: the lease has run out, also when no other worker got the job, or
was never the caller''s, or the job is finished; stop working on it.
Errors: 22004 a required argument is null, 22023 bad lease, 40001 above READ COMMITTED when
another transaction was first (try again).';

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
'Extends the leases of jobs of one claim, and returns the ids of those that it extended.
See extend_lease. An id that is missing in the answer: that lease has ended.
Errors: 22004 a required argument is null, or a null is in job_ids, 22023 bad lease, or job_ids of
several dimensions, 40001 above READ COMMITTED when another transaction was first (try again).';

-- ==== sql/queue/redrive.sql

create function pgq.redrive(
    queue text,
    job_id bigint default null,
    all_jobs boolean default null
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

    -- In the order of their ids, as everywhere where several are locked.
    letters := case
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
        max_attempts
    )
    select
        r.job_id,
        r.queue_id,
        r.partition_id,
        r.log_offset,
        pgq._clock() + target.job_ttl,
        pgq._clock(),
        r.segment,
        0,
        r.priority,
        r.label,
        r.last_error,
        r.unique_key,
        r.max_attempts
    from revived as r;
    get diagnostics redriven = row_count;

    return redriven;
end
$$;

comment on function pgq.redrive(text, bigint, boolean) is
'Puts dead letters back into their queue and returns how many.
job_id: this one. all_jobs => true: all of the queue. They are due at once, with all their attempts
before them and the whole job_ttl from now on. A letter stays one while another job has its
unique_key: two unfinished jobs of one key there are never. 0: the job is not a dead letter of this
queue, or is such a one.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 neither job_id nor all_jobs,
or both, 25001 not under READ COMMITTED.';

-- ==== sql/queue/_check_effect.sql

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

comment on function pgq._check_effect(text) is
'Refuses an effect without a name (22004), or with one that is empty or long (22023).';

-- ==== sql/queue/_flush_commit.sql

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

comment on function pgq._flush_commit() is
'Lets the commit of this transaction wait for the disk where the session has it wait for nothing.';

-- ==== sql/queue/_lock_leased.sql

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

comment on function pgq._lock_leased(bigint, uuid) is
'Locks a job whose lease token is current, and returns it; nulls where the token is stale. Above
READ COMMITTED it raises 40001 where the snapshot is too old to tell.';

-- ==== sql/queue/_lock_effect.sql

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

comment on function pgq._lock_effect(bigint, uuid, text) is
'Locks what is noted of an effect and returns it, to who began it and to who holds the job; nulls to
others, and where nothing is noted.';

-- ==== sql/queue/begin_effect.sql

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

-- ==== sql/queue/finish_effect.sql

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

-- ==== sql/queue/forget_effect.sql

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

comment on function pgq.forget_effect(bigint, uuid, text) is
'Takes back that an effect was begun; false when the caller does not hold it any more.
The next begin_effect begins it as if it were the first. Only whoever knows that it did not happen,
and that nobody is running it, should call this: the worker that began it, when it failed before it
did anything; whoever has the job now; or an operator, with the lease_token that the view effects
shows. False: it is finished, or nothing is noted, or another worker has begun it since.
Errors: 22004 a required argument is null, 22023 bad effect, 40001 above READ COMMITTED when another
transaction was first (try again).';

-- ==== sql/queue/_expired_jobs.sql

create function pgq._expired_jobs(moment timestamptz, max_jobs integer)
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
    -- its turn comes or its segment is emptied.
    for place in
        select q.queue_id, p.priority, f.seen, f.expired_ids, f.last_at, f.last_id
        from pgq.queue as q
        cross join generate_series(0, 9) as p (priority)
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
                order by k.visible_at, k.job_id
                limit few
            ) as j
        ) as f
        where f.expired_ids is not null
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

comment on function pgq._expired_jobs(timestamptz, integer) is
'Jobs that are past the job_ttl of their queue and held by no worker, so many at most.';

-- ==== sql/queue/_expire_jobs.sql

create function pgq._expire_jobs(job_ids bigint[], moment timestamptz)
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    expired_ids bigint[];
begin
    expired_ids := array(
        select j.job_id
        from pgq.job as j
        where j.job_id = any(_expire_jobs.job_ids)
            and j.expires_at <= _expire_jobs.moment
            and (j.lease_token is null or j.visible_at <= _expire_jobs.moment)
        for update skip locked
    );

    return query
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
    ),

    freed as (
        delete from pgq.unique_job as u
        where u.job_id = any(array(
            select e.job_id
            from expired as e
            where e.unique_key is not null
        ))
    )

    select 'jobs expired', q.queue::text, count(*)
    from expired as e
    inner join pgq.queue as q on q.queue_id = e.queue_id
    group by q.queue;
end
$$;

comment on function pgq._expire_jobs(bigint[], timestamptz) is
'Of these jobs, removes those that are past the job_ttl of their queue and held by no worker.';

-- ==== sql/queue/_mark_exhausted.sql

create function pgq._mark_exhausted(
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

comment on function pgq._mark_exhausted(pg_snapshot, xid8, integer) is
'Marks jobs that have had all the attempts since the max_attempts of their queue was lowered, so
that they die like those whose last worker was lost: so many at most, and says whether there are
more.';

-- ==== sql/queue/_bury_lost.sql

create function pgq._bury_lost(moment timestamptz, max_jobs bigint)
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

comment on function pgq._bury_lost(timestamptz, bigint) is
'Moves jobs that lost their worker on their last attempt to the dead ones, so many at most.';

-- ==== sql/queue/_lower_floor.sql

create function pgq._lower_floor(queue_id bigint)
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
        candidate_xid
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
        f.candidate_xid
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
    on conflict do nothing;

    return found;
end
$$;

comment on function pgq._lower_floor(bigint) is
'Lowers the floors of a queue, whose floor lock the caller holds, to the first job below them, and
says whether there was one.';

-- ==== sql/queue/_sweep_labels.sql

create function pgq._sweep_labels(queue_id bigint, max_labels bigint, moment timestamptz)
returns void
language plpgsql
volatile
parallel unsafe
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

comment on function pgq._sweep_labels(bigint, bigint, timestamptz) is
'The part of cleanup that removes floors of claims by label: of so many labels, from where the last
call ended.';

-- ==== sql/queue/_sweep_floors.sql

create function pgq._sweep_floors()
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

comment on function pgq._sweep_floors() is
'The part of cleanup that raises the floors of queues, and lowers those above a job that no claim
would find.';

-- ==== sql/queue/_clean_jobs.sql

create function pgq._clean_jobs(
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
begin
    for report in
        select r.*
        from pgq._expire_jobs(
            pgq._expired_jobs(_clean_jobs.moment, batch), _clean_jobs.moment
        ) as r
    loop
        ended := ended + report.amount;
        return next report;
    end loop;

    unfinished := pgq._mark_exhausted(
        _clean_jobs.started, _clean_jobs.horizon, batch
    );

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
    for report in
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
            returning d.job_id, d.queue_id, d.unique_key
        ),

        freed as (
            delete from pgq.unique_job as u
            where u.job_id = any(array(
                select r.job_id
                from deleted as r
                where r.unique_key is not null
            ))
        )

        select 'dead letters removed', q.queue::text, count(*)
        from deleted as r
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

    if unfinished then
        return next row('more', 'jobs', 1)::pgq.cleanup_action;
    end if;
end
$$;

comment on function pgq._clean_jobs(pg_snapshot, xid8, timestamptz) is
'The part of cleanup that removes expired jobs and old dead letters and buries jobs that lost their
workers.';

-- ==== sql/queue/_clean_effects.sql

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

comment on function pgq._clean_effects() is
'The part of cleanup that removes the notes about effects of jobs that have ended. It waits for
nobody.';

-- ==== sql/queue/_jobs_of_segment.sql

create function pgq._jobs_of_segment(
    segment integer,
    queue_id bigint,
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
            limit _jobs_of_segment.max_jobs
        );
    end if;

    return array(
        select j.job_id
        from pgq.job as j
        where j.segment = _jobs_of_segment.segment
            and (_jobs_of_segment.queue_id is null or j.queue_id = _jobs_of_segment.queue_id)
        limit _jobs_of_segment.max_jobs
    );
end
$$;

comment on function pgq._jobs_of_segment(integer, bigint, bigint, boolean) is
'Unfinished jobs, or dead ones, whose payloads stand in a segment: those of a queue or of all, so
many at most.';

-- ==== sql/queue/_carry_jobs.sql

create function pgq._carry_jobs(
    leaf integer,
    queue_id bigint,
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
    living := pgq._jobs_of_segment(
        _carry_jobs.leaf, _carry_jobs.queue_id, _carry_jobs.max_jobs, false
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

comment on function pgq._carry_jobs(integer, bigint, timestamptz, integer) is
'Carries the payloads of unfinished and dead jobs, of one queue or of all, from a segment to those
written to now, a batch at a time. A job that somebody has locked is left for the next time.';

-- ==== sql/queue/_has_archived.sql

create function pgq._has_archived(segment integer)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    found_one boolean;
begin
    execute format(
        'select exists (
            select
            from pgq.job_archive_%s as a
            inner join pgq.queue as q on q.queue_id = a.queue_id
        )',
        _has_archived.segment
    )
    into found_one;
    return found_one;
end
$$;

comment on function pgq._has_archived(integer) is
'Whether a segment holds finished jobs of a queue that is still there.';

-- ==== sql/queue/_has_jobs.sql

create function pgq._has_jobs(segment integer, queue_id bigint)
returns boolean
language plpgsql
volatile
parallel unsafe
set enable_seqscan = on
as $$
#variable_conflict use_column
begin
    -- Both in one statement: a job that is buried or redriven meanwhile is seen on one of the two
    -- sides.
    return exists (
        select
        from pgq.job as j
        where j.segment = _has_jobs.segment
            and (_has_jobs.queue_id is null or j.queue_id = _has_jobs.queue_id)
    ) or exists (
        select
        from pgq.dead_job as d
        where d.segment = _has_jobs.segment
            and (_has_jobs.queue_id is null or d.queue_id = _has_jobs.queue_id)
    );
end
$$;

comment on function pgq._has_jobs(integer, bigint) is
'Whether payloads of unfinished or dead jobs, of one queue or of all, stand in a segment.';

-- ==== sql/queue/_remove_archived.sql

create function pgq._remove_archived(segment integer, queue_id bigint, max_jobs bigint)
returns bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    removed bigint;
begin
    execute format(
        'delete from pgq.job_archive_%1$s as a
        where a.ctid = any(array(
            select b.ctid
            from pgq.job_archive_%1$s as b
            where b.queue_id = $1
            limit $2
        ))',
        _remove_archived.segment
    )
    using _remove_archived.queue_id, _remove_archived.max_jobs;
    get diagnostics removed = row_count;
    return removed;
end
$$;

comment on function pgq._remove_archived(integer, bigint, bigint) is
'Removes finished jobs of a queue from a segment, so many at most, and returns how many.';

-- ==== sql/queue/_settle_queues.sql

create function pgq._settle_queues(storage_class_id bigint, segment integer)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    update pgq.queue as q
    set segment = _settle_queues.segment
    where q.storage_class_id = _settle_queues.storage_class_id;
end
$$;

comment on function pgq._settle_queues(bigint, integer) is
'Moves the queues of a storage class, whose row the caller has locked, to the segment that it moves
to.';

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
    raise exception 'bulk write % is lost', _fail_write_lost.write_id
        using errcode = 'MQ008',
            detail = coalesce(
                _fail_write_lost.reason,
                'There is no open write of this id: it was started again under another id, '
                'aborted or forgotten, or there never was one.'
            ),
            hint = 'Start the write again with pgq.begin_write; with the same producer and seq '
                'nothing is written twice.';
end
$$;

comment on function pgq._fail_write_lost(uuid, text) is
'Raises MQ008; without a reason, because there is no open write of this id.';

-- ==== sql/bulk/_check_no_write.sql

create function pgq._check_no_write(write_id uuid)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if current_setting('transaction_isolation') not in ('repeatable read', 'serializable') then
        return;
    end if;

    -- One that the snapshot does not show cannot be added: that raises 40001.
    insert into pgq.bulk_write (queue_id, atomic, write_id, begun_at, expires_at)
    select 0, true, _check_no_write.write_id, pgq._clock(), pgq._clock()
    where _check_no_write.write_id is not null
        and not exists (
            select
            from pgq.bulk_write as w
            where w.write_id = _check_no_write.write_id
        )
    on conflict do nothing;

    delete from pgq.bulk_write as w
    where w.write_id = _check_no_write.write_id
        and w.queue_id = 0;
end
$$;

comment on function pgq._check_no_write(uuid) is
'Called where no write of this id was found: above READ COMMITTED it raises 40001 when there is one
that the snapshot is too old to show.';

-- ==== sql/bulk/_check_lengths.sql

create function pgq._check_lengths(packed bytea, lengths integer[])
returns integer
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    size integer := cardinality(_check_lengths.lengths);
    whole bigint;
    shortest integer;
    given bigint;
begin
    select coalesce(sum(l.length), 0), min(l.length), count(l.length)
    into whole, shortest, given
    from unnest(_check_lengths.lengths) as l (length);

    if given < size then
        raise exception 'argument "lengths" must not contain null'
            using errcode = '22004',
                detail = format(
                    'Number %s of %s is null; nothing was stored.',
                    array_position(_check_lengths.lengths, null)
                    - array_lower(_check_lengths.lengths, 1) + 1,
                    size
                );
    end if;
    if shortest < 0 then
        raise exception 'argument "lengths" must not contain negative numbers'
            using errcode = '22023',
                detail = 'Nothing was stored.';
    end if;
    if whole <> length(_check_lengths.packed) then
        raise exception 'argument "lengths" must add up to the size of the chunk'
            using errcode = '22023',
                detail = format(
                    'Lengths: %s bytes; chunk: %s bytes.', whole, length(_check_lengths.packed)
                );
    end if;
    return size;
end
$$;

comment on function pgq._check_lengths(bytea, integer[]) is
'The number of messages of a chunk; refuses lengths that are null (22004), negative or do not
fit (22023).';

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
    size integer := pgq._check_lengths(_check_packed.packed, _check_packed.lengths);
begin
    if greatest(
        array_ndims(_check_packed.starts),
        array_ndims(_check_packed.lengths),
        array_ndims(_check_packed.keys),
        array_ndims(_check_packed.headers)
    ) > 1 then
        raise exception 'the arrays of a chunk must have one dimension'
            using errcode = '22023';
    end if;
    if cardinality(_check_packed.starts) <> size
        or cardinality(_check_packed.keys) <> size
        or cardinality(_check_packed.headers) <> size
    then
        raise exception 'the arrays of a chunk must have the same length'
            using errcode = '22023',
                detail = concat_ws(
                    ', ',
                    'messages: ' || size,
                    'starts: ' || cardinality(_check_packed.starts),
                    'keys: ' || cardinality(_check_packed.keys),
                    'headers: ' || cardinality(_check_packed.headers)
                );
    end if;
    if array_position(_check_packed.starts, null) is not null then
        raise exception 'argument "starts" must not contain null'
            using errcode = '22004',
                detail = 'Nothing was stored.';
    end if;

    -- Whether each content begins where the one before ends is for the writer to see to; here is
    -- looked at the first and the last one.
    if size > 0
        and (
            _check_packed.starts[array_lower(_check_packed.starts, 1)] <> 1
            or _check_packed.starts[array_upper(_check_packed.starts, 1)]::bigint
            + _check_packed.lengths[array_upper(_check_packed.lengths, 1)] - 1
            <> length(_check_packed.packed)
        )
    then
        raise exception 'argument "starts" must fit "lengths"'
            using errcode = '22023',
                hint = 'They count from 1; leave them out to have them found from the lengths.';
    end if;
    if _check_packed.headers is not null
        and exists (
            select from unnest(_check_packed.headers) as h (header)
            where jsonb_typeof(h.header) <> 'object'
        )
    then
        raise exception 'argument "headers" must contain nothing but JSON objects'
            using errcode = '22023';
    end if;
    return size;
end
$$;

comment on function pgq._check_packed(bytea, integer[], integer[], text[], jsonb[]) is
'The number of messages of a chunk that is stored as it is; refuses what does not add up.';

-- ==== sql/bulk/_check_chunk.sql

create function pgq._check_chunk(
    task integer,
    task_attempt text,
    chunk integer,
    lengths integer[],
    packed_payloads bytea,
    packed_bodies bytea
)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if num_nulls(
        _check_chunk.task, _check_chunk.task_attempt, _check_chunk.chunk, _check_chunk.lengths
    ) > 0 then
        raise exception 'argument "%" must not be null',
            case
                when _check_chunk.task is null then 'task'
                when _check_chunk.task_attempt is null then 'task_attempt'
                when _check_chunk.chunk is null then 'chunk'
                else 'lengths'
            end
            using errcode = '22004';
    end if;
    if (_check_chunk.packed_payloads is null) = (_check_chunk.packed_bodies is null) then
        raise exception '"packed_payloads", "packed_bodies": exactly one is needed'
            using errcode = case
                    when _check_chunk.packed_bodies is null then '22004'
                    else '22023'
                end,
                hint = 'Pass JSON texts as packed_payloads, or raw bytes as packed_bodies.';
    end if;
    if least(_check_chunk.task, _check_chunk.chunk) < 0 then
        raise exception 'argument "%" must not be negative',
            case when _check_chunk.task < 0 then 'task' else 'chunk' end
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_chunk(integer, text, integer, integer[], bytea, bytea) is
'Refuses a chunk without its numbers, its lengths or its contents (22004), or with both kinds of
contents or a negative number (22023).';

-- ==== sql/bulk/_check_chunk_options.sql

create function pgq._check_chunk_options(
    target pgq._write_target,
    partition integer,
    delay interval,
    priority integer,
    labels text[]
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if (_check_chunk_options.target).queue is null then
        if num_nonnulls(
            _check_chunk_options.delay,
            _check_chunk_options.priority,
            _check_chunk_options.labels
        ) > 0 then
            raise exception 'argument "%" must be null for messages',
                case
                    when _check_chunk_options.priority is not null then 'priority'
                    when _check_chunk_options.delay is not null then 'delay'
                    else 'labels'
                end
                using errcode = '22023',
                    detail = 'This write goes to a topic.';
        end if;
        if _check_chunk_options.partition
            not between 0 and (_check_chunk_options.target).partitions - 1
        then
            perform pgq._fail_unknown_partition(
                (_check_chunk_options.target).topic,
                _check_chunk_options.partition,
                (_check_chunk_options.target).partitions
            );
        end if;
        return;
    end if;

    if _check_chunk_options.partition is not null then
        raise exception 'argument "partition" must be null for jobs'
            using errcode = '22023',
                detail = 'This write goes to a queue.';
    end if;
    if _check_chunk_options.priority not between 0 and 9 then
        perform pgq._check_count('priority', _check_chunk_options.priority, 0, 9);
    end if;
    if _check_chunk_options.delay is not null then
        perform pgq._due_at(
            (_check_chunk_options.target).queue,
            pgq._clock(),
            _check_chunk_options.delay,
            null,
            (_check_chunk_options.target).job_ttl
        );
    end if;
    if _check_chunk_options.labels is not null then
        perform pgq._check_label(l.label)
        from unnest(_check_chunk_options.labels) as l (label)
        where length(l.label) > 255;
    end if;
end
$$;

comment on function pgq._check_chunk_options(
    pgq._write_target, integer, interval, integer, text[]
) is
'Refuses now what publish_batch or enqueue_batch would refuse later, when the chunk is published
(22023, MQ007).';

-- ==== sql/bulk/_check_target.sql

create function pgq._check_target(write_id uuid, topic_id bigint, queue_id bigint)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if not exists (
        select
        from pgq.topic as t
        where t.topic_id = _check_target.topic_id
    )
        and not exists (
            select
            from pgq.queue as q
            where q.queue_id = _check_target.queue_id
        )
    then
        perform pgq._fail_write_lost(
            _check_target.write_id, 'Its topic or queue was dropped.'
        );
    end if;
end
$$;

comment on function pgq._check_target(uuid, bigint, bigint) is
'Raises MQ008 when the topic or queue was dropped while it was written to.
Messages and jobs are stored by name, and there may be another of the same name by now.';

-- ==== sql/bulk/_forget_staged.sql

create function pgq._forget_staged(write_id uuid, most integer)
returns integer
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    removed integer;
begin
    -- An old snapshot does not show all that is staged.
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        return null;
    end if;

    perform
    from pgq.staged_write as s
    where s.write_id = _forget_staged.write_id
    for update skip locked;

    if not found then
        return null;
    end if;

    -- By address, which nobody changes now: a join has bad plans while statistics are missing.
    delete from pgq.staged_chunk as c
    where c.ctid = any(
        array(
            select f.ctid
            from pgq.staged_chunk as f
            where f.write_id = _forget_staged.write_id
            limit _forget_staged.most
        )
    );

    get diagnostics removed = row_count;
    if removed = _forget_staged.most then
        return removed;
    end if;

    delete from pgq.staged_task as k
    where k.write_id = _forget_staged.write_id;

    delete from pgq.staged_write as s
    where s.write_id = _forget_staged.write_id;

    return removed;
end
$$;

comment on function pgq._forget_staged(uuid, integer) is
'Removes what was staged for a bulk write, and returns how many chunks it removed.
most: the most that it may remove; when it removed fewer, nothing is left. Null: nothing was
removed, because transactions with chunks of it are open, or nothing is staged, or under REPEATABLE
READ or SERIALIZABLE; cleanup then removes it. It waits for nobody.';

-- ==== sql/bulk/_forget_published.sql

create function pgq._forget_published(bulk_write_id bigint, most integer)
returns integer
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    removed integer;
begin
    -- As in _forget_staged.
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        return null;
    end if;

    perform
    from pgq.published_write as g
    where g.bulk_write_id = _forget_published.bulk_write_id
    for update skip locked;

    if not found then
        return null;
    end if;

    -- By address, which nobody changes now: a join has bad plans while statistics are missing.
    delete from pgq.published_chunk as p
    where p.ctid = any(
        array(
            select f.ctid
            from pgq.published_chunk as f
            where f.bulk_write_id = _forget_published.bulk_write_id
            limit _forget_published.most
        )
    );

    get diagnostics removed = row_count;
    if removed = _forget_published.most then
        return removed;
    end if;

    delete from pgq.published_write as g
    where g.bulk_write_id = _forget_published.bulk_write_id;

    return removed;
end
$$;

comment on function pgq._forget_published(bigint, integer) is
'Removes what is noted of the chunks that a bulk write published; otherwise like _forget_staged.';

-- ==== sql/bulk/_forget_older.sql

create function pgq._forget_older(target pgq.bulk_write)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    topic_id_or_0 bigint := coalesce((_forget_older.target).topic_id, 0);
    queue_id_or_0 bigint := coalesce((_forget_older.target).queue_id, 0);
    oldest_seq bigint;
begin
    select w.seq
    into oldest_seq
    from pgq.bulk_write as w
    where coalesce(w.topic_id, 0) = topic_id_or_0
        and coalesce(w.queue_id, 0) = queue_id_or_0
        and w.producer = (_forget_older.target).producer
        and w.committed_at is not null
    order by w.seq desc
    offset 999
    limit 1;

    if oldest_seq is null then
        return;
    end if;

    -- All but the one that was just committed, since its commit may be repeated. The upsert is what
    -- a begin_write with an old snapshot conflicts with: it would not know what was forgotten.
    with forgotten as (
        delete from pgq.bulk_write as w
        where w.bulk_write_id = any(
            array(
                select o.bulk_write_id
                from pgq.bulk_write as o
                where coalesce(o.topic_id, 0) = topic_id_or_0
                    and coalesce(o.queue_id, 0) = queue_id_or_0
                    and o.producer = (_forget_older.target).producer
                    and o.committed_at is not null
                    and o.seq < oldest_seq
                    and o.bulk_write_id <> (_forget_older.target).bulk_write_id
                for update skip locked
            )
        )
        returning w.seq
    )

    insert into pgq.bulk_producer as p (producer, topic_id, queue_id, forgotten_seq)
    select
        (_forget_older.target).producer,
        (_forget_older.target).topic_id,
        (_forget_older.target).queue_id,
        max(f.seq)
    from forgotten as f
    having max(f.seq) is not null
    on conflict (coalesce(topic_id, 0), coalesce(queue_id, 0), producer) do update
    set forgotten_seq = greatest(p.forgotten_seq, excluded.forgotten_seq);
end
$$;

comment on function pgq._forget_older(pgq.bulk_write) is
'Forgets the writes of a producer that are older than its newest 1000, by seq.';

-- ==== sql/bulk/_check_remembered.sql

create function pgq._check_remembered(target pgq.bulk_write)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    forgotten bigint;
begin
    if (_check_remembered.target).producer is null then
        return;
    end if;

    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        -- An old snapshot may show neither the write nor that it was forgotten. Then one of these
        -- raises 40001.
        insert into pgq.bulk_producer (producer, topic_id, queue_id)
        values (
            (_check_remembered.target).producer,
            (_check_remembered.target).topic_id,
            (_check_remembered.target).queue_id
        )
        on conflict do nothing;

        perform
        from pgq.bulk_producer as p
        where p.producer = (_check_remembered.target).producer
            and coalesce(p.topic_id, 0) = coalesce((_check_remembered.target).topic_id, 0)
            and coalesce(p.queue_id, 0) = coalesce((_check_remembered.target).queue_id, 0)
        for share;
    end if;

    select p.forgotten_seq
    into forgotten
    from pgq.bulk_producer as p
    where p.producer = (_check_remembered.target).producer
        and coalesce(p.topic_id, 0) = coalesce((_check_remembered.target).topic_id, 0)
        and coalesce(p.queue_id, 0) = coalesce((_check_remembered.target).queue_id, 0);

    if (_check_remembered.target).seq <= forgotten then
        raise exception 'write % of producer "%" is older than what is remembered',
            (_check_remembered.target).seq, (_check_remembered.target).producer
            using errcode = '22023',
                detail = 'The newest 1000 writes of a producer are remembered, by seq.',
                hint = 'Nobody can tell whether it was written before. If you know that it was '
                    'not, write it under another name of the producer.';
    end if;
end
$$;

comment on function pgq._check_remembered(pgq.bulk_write) is
'Refuses a write that is begun for the first time, as it seems, and may have been forgotten (22023).
It must have been inserted before this is called, so that nobody else can write and forget it.';

-- ==== sql/bulk/_wanted_write.sql

create function pgq._wanted_write(
    topic text, queue text, producer text, seq bigint, atomic boolean
)
returns pgq.bulk_write
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    wanted pgq.bulk_write;
begin
    if (_wanted_write.topic is null) = (_wanted_write.queue is null) then
        raise exception '"topic", "queue": exactly one is needed'
            using errcode = case when _wanted_write.topic is null then '22004' else '22023' end;
    end if;
    if (_wanted_write.producer is null) <> (_wanted_write.seq is null) then
        raise exception '"producer", "seq": both or neither are needed'
            using errcode = '22023',
                hint = 'They make the write recognised when it is repeated.';
    end if;
    if length(_wanted_write.producer) not between 1 and 255 then
        raise exception 'argument "producer" must have 1 to 255 characters'
            using errcode = '22023';
    end if;

    if _wanted_write.topic is not null then
        select t.topic_id
        into wanted.topic_id
        from pgq.topic as t
        where t.topic = _wanted_write.topic;

        if wanted.topic_id is null then
            perform pgq._fail_unknown_topic(_wanted_write.topic);
        end if;
    else
        select q.queue_id
        into wanted.queue_id
        from pgq.queue as q
        where q.queue = _wanted_write.queue;

        if wanted.queue_id is null then
            perform pgq._fail_unknown_queue(_wanted_write.queue);
        end if;
    end if;

    wanted.producer := _wanted_write.producer;
    wanted.seq := _wanted_write.seq;
    wanted.atomic := _wanted_write.atomic;
    return wanted;
end
$$;

comment on function pgq._wanted_write(text, text, text, bigint, boolean) is
'The write that these arguments of begin_write ask for, without an id. Raises MQ001, MQ002, 22004
and 22023.';

-- ==== sql/bulk/_known_write.sql

create function pgq._known_write(wanted pgq.bulk_write)
returns pgq.bulk_write
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    known pgq.bulk_write;
begin
    select w.*
    into known
    from pgq.bulk_write as w
    where w.producer = (_known_write.wanted).producer
        and coalesce(w.topic_id, 0) = coalesce((_known_write.wanted).topic_id, 0)
        and coalesce(w.queue_id, 0) = coalesce((_known_write.wanted).queue_id, 0)
        and w.seq = (_known_write.wanted).seq;

    -- One that is committed stays committed, so it is returned without a lock and without a wait.
    if known.committed_at is null and known.bulk_write_id is not null then
        select w.*
        into known
        from pgq.bulk_write as w
        where w.bulk_write_id = known.bulk_write_id
        for update;
    end if;
    return known;
end
$$;

comment on function pgq._known_write(pgq.bulk_write) is
'The write of this producer and seq, locked unless it is committed; null: there is none.';

-- ==== sql/bulk/_add_write.sql

create function pgq._add_write(wanted pgq.bulk_write, timeout interval)
returns pgq.bulk_write
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgq._clock();
    made pgq.bulk_write;
begin
    insert into pgq.bulk_write (
        topic_id, queue_id, producer, seq, atomic, write_id, begun_at, expires_at
    )
    values (
        (_add_write.wanted).topic_id,
        (_add_write.wanted).queue_id,
        (_add_write.wanted).producer,
        (_add_write.wanted).seq,
        (_add_write.wanted).atomic,
        gen_random_uuid(),
        moment,
        moment + _add_write.timeout
    )
    on conflict do nothing
    returning *
    into made;

    if made.bulk_write_id is not null then
        perform pgq._check_remembered(made);

        if made.atomic then
            insert into pgq.staged_write (write_id)
            values (made.write_id);
        else
            insert into pgq.published_write (bulk_write_id)
            values (made.bulk_write_id);
        end if;
    end if;
    return made;
end
$$;

comment on function pgq._add_write(pgq.bulk_write, interval) is
'Adds a write with its mark; null: somebody else has added one of the same producer and seq. Raises
22023 when the producer may have made it before and it is forgotten.';

-- ==== sql/bulk/_restart_write.sql

create function pgq._restart_write(known pgq.bulk_write, atomic boolean, timeout interval)
returns pgq.bulk_write
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    moment timestamptz;
    restarted pgq.bulk_write;
begin
    if (_restart_write.known).atomic <> _restart_write.atomic then
        raise exception 'write % of producer "%" was begun with atomic = %',
            (_restart_write.known).seq,
            (_restart_write.known).producer,
            (_restart_write.known).atomic
            using errcode = '22023',
                hint = 'A write that is open goes on as it was begun.';
    end if;

    -- Writers of the earlier attempt may still have transactions open; none of them is waited for.
    --
    -- Atomic: what they stage belongs to the old id, which nobody can commit any more. What cannot
    -- be removed now is left to cleanup.
    --
    -- Not atomic: their chunks are published if their transactions commit, so they count like
    -- chunks that were published before this call. A writer that brings an open chunk again waits
    -- for it, and commit_write waits for all of them. When one of them is not a chunk of the new
    -- attempt, commit_write sees that by the number of the attempt.
    if (_restart_write.known).atomic then
        perform pgq._forget_staged((_restart_write.known).write_id, null);
    end if;

    moment := pgq._clock();
    update pgq.bulk_write as w
    set
        write_id = gen_random_uuid(),
        attempt = w.attempt + 1,
        begun_at = moment,
        expires_at = moment + _restart_write.timeout
    where w.bulk_write_id = (_restart_write.known).bulk_write_id
    returning w.*
    into restarted;

    if restarted.atomic then
        insert into pgq.staged_write (write_id)
        values (restarted.write_id);
    end if;
    return restarted;
end
$$;

comment on function pgq._restart_write(pgq.bulk_write, boolean, interval) is
'Starts an open write, which the caller has locked, again under a new id. Raises 22023 when it was
begun with another value of atomic.';

-- ==== sql/bulk/begin_write.sql

create function pgq.begin_write(
    topic text default null,
    queue text default null,
    producer text default null,
    seq bigint default null,
    atomic boolean default true,
    timeout interval default '1 day'
)
returns setof pgq.bulk_write_state
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '60s'
as $$
#variable_conflict use_column
declare
    wanted pgq.bulk_write;
    known pgq.bulk_write;
    time_limit interval := coalesce(begin_write.timeout, '1 day');
begin
    perform pgq._check_interval('timeout', time_limit, false);
    wanted := pgq._wanted_write(
        begin_write.topic collate "C",
        begin_write.queue,
        begin_write.producer,
        begin_write.seq,
        coalesce(begin_write.atomic, true)
    );

    -- Somebody else may add it, or remove it, between the look and the insert.
    loop
        known := pgq._known_write(wanted);
        exit when known.bulk_write_id is not null;

        known := pgq._add_write(wanted, time_limit);
        if known.bulk_write_id is not null then
            return next row(known.write_id, null, null, false)::pgq.bulk_write_state;
            return;
        end if;
    end loop;

    if known.committed_at is null then
        known := pgq._restart_write(known, wanted.atomic, time_limit);
    end if;
    return next row(
        known.write_id, known.messages, known.committed_at, known.committed_at is not null
    )::pgq.bulk_write_state;
end
$$;

comment on function pgq.begin_write(text, text, text, bigint, boolean, interval) is
'Begins a write of many writers to a topic or a queue, and returns the id that they all write with.
Commit the transaction of this call before the writers start: until then they do not see the write.
They add chunks with write_chunk; commit_write ends the write, abort_write gives it up. atomic: true
(the default) to stage the chunks, so that all messages are seen at once when the write is
committed; false to publish each chunk as soon as it comes.
producer and seq name the write, so that pgq knows it when it is begun a second time. If it was
committed before, the result has duplicate = true, and there is nothing to do. If it is still open,
it starts again under a new id: writers that come with the old id are refused, and chunks that were
published already are left out. Nobody waits for writers that still have a transaction open under
the old id: what they stage is never published, and what they publish counts as published before.
The newest 1000 writes of a producer are remembered for each topic and queue.
timeout: cleanup forgets a write that is not committed for so long (by default 1 day). The chunks
that it published stay in the topic or queue, and are published again if the write is begun again.
Errors: MQ001 unknown topic, MQ002 unknown queue, 22004 neither topic nor queue is given, 22023
both are, producer without seq or seq without producer, a bad timeout, a seq that is older than
what is remembered, or a write that was begun with another value of atomic, 40001 above READ
COMMITTED when another transaction was first (try again), 55P03 waited 60 s for a lock (call it
again).';

-- ==== sql/bulk/_find_write.sql

create function pgq._find_write(write_id uuid)
returns pgq._write_target
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq._write_target;
    ended_at timestamptz;
begin
    select
        w.bulk_write_id,
        w.atomic,
        w.attempt,
        w.topic_id,
        t.topic,
        t.partitions,
        w.queue_id,
        q.queue,
        q.job_ttl,
        w.committed_at
    into
        target.bulk_write_id,
        target.atomic,
        target.attempt,
        target.topic_id,
        target.topic,
        target.partitions,
        target.queue_id,
        target.queue,
        target.job_ttl,
        ended_at
    from pgq.bulk_write as w
    left join pgq.topic as t on t.topic_id = w.topic_id
    left join pgq.queue as q on q.queue_id = w.queue_id
    where w.write_id = _find_write.write_id;

    if target.bulk_write_id is null
        or ended_at is not null
        or num_nonnulls(target.topic, target.queue) = 0
    then
        if target.bulk_write_id is null then
            perform pgq._check_no_write(_find_write.write_id);
        end if;
        perform pgq._fail_write_lost(
            _find_write.write_id,
            case
                when ended_at is not null
                    then 'It has been committed; this attempt to write comes too late.'
                when target.bulk_write_id is not null
                    then 'Its topic or queue was dropped.'
            end
        );
    end if;
    return target;
end
$$;

comment on function pgq._find_write(uuid) is
'The open write of this id, and what it writes to. Raises MQ008.';

-- ==== sql/bulk/_note_task.sql

create function pgq._note_task(write_id uuid, task integer, task_attempt text)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    owner_attempt text;
begin
    -- The first attempt of a task that commits is the one that counts. Another one waits here
    -- until that is decided.
    insert into pgq.staged_task (write_id, task, task_attempt)
    values (_note_task.write_id, _note_task.task, _note_task.task_attempt)
    on conflict do nothing;

    if not found then
        select k.task_attempt
        into owner_attempt
        from pgq.staged_task as k
        where k.write_id = _note_task.write_id
            and k.task = _note_task.task;

        if owner_attempt is distinct from _note_task.task_attempt then
            return false;
        end if;
    end if;

    -- Only now, so that an attempt whose chunks are left out holds up nobody.
    perform
    from pgq.staged_write as s
    where s.write_id = _note_task.write_id
    for key share;

    if not found then
        perform pgq._fail_write_lost(
            _note_task.write_id,
            case
                when exists (
                    select
                    from pgq.bulk_write as w
                    where w.write_id = _note_task.write_id
                        and w.committed_at is null
                )
                    then 'The server crashed, and what was staged is gone.'
                else 'It was committed, started again or aborted meanwhile.'
            end
        );
    end if;
    return true;
end
$$;

comment on function pgq._note_task(uuid, integer, text) is
'Notes the attempt of a task; true when it is the one that counts. The write then stays open until
the transaction of the attempt ends. Raises MQ008.';

-- ==== sql/bulk/_note_chunk.sql

create function pgq._note_chunk(
    write_id uuid,
    target pgq._write_target,
    task integer,
    chunk integer,
    messages integer,
    digest bigint
)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- The lock lets commit_write wait for this chunk, and this chunk see that it comes too late.
    perform
    from pgq.published_write as g
    where g.bulk_write_id = (_note_chunk.target).bulk_write_id
    for key share;

    if not found then
        perform pgq._fail_write_lost(
            _note_chunk.write_id, 'It was committed, aborted or forgotten meanwhile.'
        );
    end if;

    insert into pgq.published_chunk (
        bulk_write_id, task, chunk, messages, digest, attempt
    )
    values (
        (_note_chunk.target).bulk_write_id,
        _note_chunk.task,
        _note_chunk.chunk,
        _note_chunk.messages,
        _note_chunk.digest,
        (_note_chunk.target).attempt
    )
    on conflict do nothing;

    if found then
        return true;
    end if;

    -- A writer of an earlier attempt may come after one of a later attempt.
    update pgq.published_chunk as p
    set attempt = greatest(p.attempt, (_note_chunk.target).attempt)
    where p.bulk_write_id = (_note_chunk.target).bulk_write_id
        and p.task = _note_chunk.task
        and p.chunk = _note_chunk.chunk
        and p.digest = _note_chunk.digest;

    if not found then
        raise exception 'chunk % of task % was written before with other contents',
            _note_chunk.chunk, _note_chunk.task
            using errcode = '22023',
                detail = 'A repeated task must make the same chunks; this one did not.',
                hint = 'What was published stays. For input that is not the same each time, begin '
                    'new writes as atomic ones.';
    end if;
    return false;
end
$$;

comment on function pgq._note_chunk(
    uuid, pgq._write_target, integer, integer, integer, bigint
) is
'Notes a chunk of a write that is not atomic; true when it is new. The write then stays open until
the transaction of the chunk ends. Raises MQ008, and 22023 when another chunk has these numbers.';

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
    size integer;
    pieces bytea[];
    piece_length integer;
    number integer := 1;
    place integer := 1;
begin
    if whole is null then
        return null;
    end if;

    size := pgq._check_lengths(whole, _unpack.lengths);
    pieces := array_fill(null::bytea, array[size]);
    foreach piece_length in array _unpack.lengths loop
        pieces[number] := substring(whole from place for piece_length);
        place := place + piece_length;
        number := number + 1;
    end loop;
    return pieces;
end
$$;

comment on function pgq._unpack(bytea, integer[]) is
'The contents of a chunk, one by one; null for null. Refuses lengths that are null, negative or do
not fit.';

-- ==== sql/bulk/_unpack_payloads.sql

create function pgq._unpack_payloads(packed_payloads bytea, lengths integer[])
returns jsonb[]
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    payloads jsonb[];
begin
    if _unpack_payloads.packed_payloads is null then
        return null;
    end if;

    payloads := array(
        select convert_from(u.content, 'UTF8')::jsonb
        from unnest(pgq._unpack(_unpack_payloads.packed_payloads, _unpack_payloads.lengths))
        with ordinality as u (content, place)
        order by u.place
    );
    return payloads;
end
$$;

comment on function pgq._unpack_payloads(bytea, integer[]) is
'The same for JSON texts. Refuses contents that are not JSON (22P02, 22P05, 22021), or that the
database cannot have as JSON (22003, 54001).';

-- ==== sql/bulk/_stays_packed.sql

create function pgq._stays_packed(
    target pgq._write_target,
    keys text[],
    partition integer,
    starts integer[],
    packed_bodies bytea
)
returns boolean
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
begin
    return _stays_packed.starts is not null
        and _stays_packed.packed_bodies is not null
        and (_stays_packed.target).topic is not null
        and (_stays_packed.keys is null or _stays_packed.partition is not null)
        and current_setting('transaction_isolation') not in ('repeatable read', 'serializable');
end
$$;

comment on function pgq._stays_packed(pgq._write_target, text[], integer, integer[], bytea) is
'Whether a chunk stays packed until its messages are stored, which takes least time: bodies that all
go to one partition, and whose starts the writer gave.';

-- ==== sql/bulk/_check_staged.sql

create function pgq._check_staged(
    write_id uuid,
    task integer,
    chunk integer,
    payloads jsonb[],
    keys text[],
    headers jsonb[],
    partition integer,
    delay interval,
    priority integer,
    labels text[],
    bodies bytea[]
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if not exists (
        select
        from pgq.staged_chunk as c
        where c.write_id = _check_staged.write_id
            and c.task = _check_staged.task
            and c.chunk = _check_staged.chunk
            and c.payloads is not distinct from _check_staged.payloads
            and c.keys is not distinct from _check_staged.keys
            and c.headers is not distinct from _check_staged.headers
            and c.partition is not distinct from _check_staged.partition
            and c.delay is not distinct from _check_staged.delay
            and coalesce(c.priority, 0) = coalesce(_check_staged.priority, 0)
            and c.labels is not distinct from _check_staged.labels
            and coalesce(c.bodies, pgq._unpack(c.packed_bodies, c.lengths))
            is not distinct from _check_staged.bodies
    ) then
        raise exception 'chunk % of task % was written before with other contents',
            _check_staged.chunk, _check_staged.task
            using errcode = '22023',
                detail = 'One attempt to run the task gave two chunks the same number.';
    end if;
end
$$;

comment on function pgq._check_staged(
    uuid, integer, integer, jsonb[], text[], jsonb[], integer, interval, integer, text[], bytea[]
) is
'Refuses a chunk when another one was staged under the same number (22023).';

-- ==== sql/bulk/_stage_chunk.sql

create function pgq._stage_chunk(
    target pgq._write_target,
    write_id uuid,
    task integer,
    chunk integer,
    lengths integer[],
    packed_payloads bytea,
    keys text[],
    headers jsonb[],
    partition integer,
    delay interval,
    priority integer,
    labels text[],
    starts integer[],
    packed_bodies bytea
)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    stays_packed boolean := pgq._stays_packed(
        _stage_chunk.target,
        _stage_chunk.keys,
        _stage_chunk.partition,
        _stage_chunk.starts,
        _stage_chunk.packed_bodies
    );
    documents jsonb[];
    contents bytea[];
    size integer;
begin
    -- The task that makes a bad chunk is told now, and not commit_write.
    if stays_packed then
        size := pgq._check_packed(
            _stage_chunk.packed_bodies,
            _stage_chunk.starts,
            _stage_chunk.lengths,
            _stage_chunk.keys,
            _stage_chunk.headers
        );
    else
        documents := pgq._unpack_payloads(_stage_chunk.packed_payloads, _stage_chunk.lengths);
        contents := pgq._unpack(_stage_chunk.packed_bodies, _stage_chunk.lengths);
        size := pgq._check_batch(
            payloads => documents,
            keys => _stage_chunk.keys,
            headers => _stage_chunk.headers,
            labels => _stage_chunk.labels,
            bodies => contents
        );
    end if;

    insert into pgq.staged_chunk (
        write_id,
        task,
        chunk,
        messages,
        payloads,
        keys,
        headers,
        partition,
        delay,
        priority,
        labels,
        bodies,
        lengths,
        starts,
        packed_bodies
    )
    values (
        _stage_chunk.write_id,
        _stage_chunk.task,
        _stage_chunk.chunk,
        size,
        documents,
        _stage_chunk.keys,
        _stage_chunk.headers,
        _stage_chunk.partition,
        _stage_chunk.delay,
        _stage_chunk.priority,
        _stage_chunk.labels,
        contents,
        case when stays_packed then _stage_chunk.lengths end,
        case when stays_packed then _stage_chunk.starts end,
        case when stays_packed then _stage_chunk.packed_bodies end
    )
    on conflict do nothing;

    if found then
        return true;
    end if;

    perform pgq._check_staged(
        _stage_chunk.write_id,
        _stage_chunk.task,
        _stage_chunk.chunk,
        documents,
        _stage_chunk.keys,
        _stage_chunk.headers,
        _stage_chunk.partition,
        _stage_chunk.delay,
        _stage_chunk.priority,
        _stage_chunk.labels,
        pgq._unpack(_stage_chunk.packed_bodies, _stage_chunk.lengths)
    );
    return false;
end
$$;

comment on function pgq._stage_chunk(
    pgq._write_target, uuid, integer, integer, integer[], bytea, text[], jsonb[], integer, interval,
    integer, text[], integer[], bytea
) is
'Stages a chunk of an atomic write; false when the same chunk is staged already. Refuses what could
not be published later.';

-- ==== sql/bulk/_note_last_chunk.sql

create function pgq._note_last_chunk(write_id uuid, task integer)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    update pgq.staged_task as k
    set messages = (
        select sum(c.messages)
        from pgq.staged_chunk as c
        where c.write_id = _note_last_chunk.write_id
            and c.task = _note_last_chunk.task
    )
    where k.write_id = _note_last_chunk.write_id
        and k.task = _note_last_chunk.task;
end
$$;

comment on function pgq._note_last_chunk(uuid, integer) is
'Notes how many messages a task has staged, so that commit_write sees whether one is missing.';

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

    if state.notify and size > 0 then
        perform pg_notify('pgq_topic', _publish_packed.topic);
    end if;
end
$$;

comment on function pgq._publish_packed(
    text, bytea, integer[], integer[], text[], jsonb[], integer
) is
'Publishes the messages of a chunk, which _check_packed has checked, to one partition.';

-- ==== sql/bulk/_publish_messages.sql

create function pgq._publish_messages(
    topic text,
    queue text,
    payloads jsonb[],
    keys text[],
    headers jsonb[],
    partition integer,
    delay interval,
    priority integer,
    labels text[],
    bodies bytea[]
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if _publish_messages.topic is not null then
        perform pgq.publish_batch(
            topic => _publish_messages.topic,
            payloads => _publish_messages.payloads,
            keys => _publish_messages.keys,
            headers => _publish_messages.headers,
            partition => _publish_messages.partition,
            bodies => _publish_messages.bodies
        );
    else
        perform pgq.enqueue_batch(
            queue => _publish_messages.queue,
            payloads => _publish_messages.payloads,
            keys => _publish_messages.keys,
            headers => _publish_messages.headers,
            delay => _publish_messages.delay,
            priority => _publish_messages.priority,
            labels => _publish_messages.labels,
            bodies => _publish_messages.bodies
        );
    end if;
end
$$;

comment on function pgq._publish_messages(
    text, text, jsonb[], text[], jsonb[], integer, interval, integer, text[], bytea[]
) is
'Publishes or enqueues the messages of a chunk.';

-- ==== sql/bulk/_publish_chunk.sql

create function pgq._publish_chunk(
    target pgq._write_target,
    write_id uuid,
    task integer,
    chunk integer,
    lengths integer[],
    packed_payloads bytea,
    keys text[],
    headers jsonb[],
    partition integer,
    delay interval,
    priority integer,
    labels text[],
    starts integer[],
    packed_bodies bytea
)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- The digest is of all that a writer says about the messages: starts follow from lengths.
    if not pgq._note_chunk(
        _publish_chunk.write_id,
        _publish_chunk.target,
        _publish_chunk.task,
        _publish_chunk.chunk,
        cardinality(_publish_chunk.lengths),
        hash_record_extended(
            row(
                _publish_chunk.lengths,
                _publish_chunk.packed_payloads,
                _publish_chunk.keys,
                _publish_chunk.headers,
                _publish_chunk.partition,
                _publish_chunk.delay,
                coalesce(_publish_chunk.priority, 0),
                _publish_chunk.labels,
                _publish_chunk.packed_bodies
            ),
            0
        )
    ) then
        return false;
    end if;

    if pgq._stays_packed(
        _publish_chunk.target,
        _publish_chunk.keys,
        _publish_chunk.partition,
        _publish_chunk.starts,
        _publish_chunk.packed_bodies
    ) then
        perform pgq._check_packed(
            _publish_chunk.packed_bodies,
            _publish_chunk.starts,
            _publish_chunk.lengths,
            _publish_chunk.keys,
            _publish_chunk.headers
        );
        perform pgq._publish_packed(
            (_publish_chunk.target).topic,
            _publish_chunk.packed_bodies,
            _publish_chunk.starts,
            _publish_chunk.lengths,
            _publish_chunk.keys,
            _publish_chunk.headers,
            _publish_chunk.partition
        );
    else
        perform pgq._publish_messages(
            (_publish_chunk.target).topic,
            (_publish_chunk.target).queue,
            pgq._unpack_payloads(_publish_chunk.packed_payloads, _publish_chunk.lengths),
            _publish_chunk.keys,
            _publish_chunk.headers,
            _publish_chunk.partition,
            _publish_chunk.delay,
            _publish_chunk.priority,
            _publish_chunk.labels,
            pgq._unpack(_publish_chunk.packed_bodies, _publish_chunk.lengths)
        );
    end if;

    perform pgq._check_target(
        _publish_chunk.write_id,
        (_publish_chunk.target).topic_id,
        (_publish_chunk.target).queue_id
    );
    return true;
end
$$;

comment on function pgq._publish_chunk(
    pgq._write_target, uuid, integer, integer, integer[], bytea, text[], jsonb[], integer, interval,
    integer, text[], integer[], bytea
) is
'Publishes a chunk of a write that is not atomic; false when it was published before.';

-- ==== sql/bulk/write_chunk.sql

create function pgq.write_chunk(
    write_id uuid,
    task integer,
    task_attempt text,
    chunk integer,
    lengths integer[],
    packed_payloads bytea default null,
    keys text[] default null,
    headers jsonb[] default null,
    partition integer default null,
    delay interval default null,
    priority integer default null,
    labels text[] default null,
    last_chunk boolean default false,
    starts integer[] default null,
    packed_bodies bytea default null
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
set lock_timeout = '60s'
as $$
#variable_conflict use_column
declare
    target pgq._write_target := pgq._find_write(write_chunk.write_id);
    is_new boolean;
begin
    perform pgq._check_chunk(
        write_chunk.task,
        write_chunk.task_attempt collate "C",
        write_chunk.chunk,
        write_chunk.lengths,
        write_chunk.packed_payloads,
        write_chunk.packed_bodies
    );
    perform pgq._check_chunk_options(
        target,
        write_chunk.partition,
        write_chunk.delay,
        write_chunk.priority,
        write_chunk.labels collate "C"
    );

    if not target.atomic then
        return pgq._publish_chunk(
            target,
            write_chunk.write_id,
            write_chunk.task,
            write_chunk.chunk,
            write_chunk.lengths,
            write_chunk.packed_payloads,
            write_chunk.keys collate "C",
            write_chunk.headers,
            write_chunk.partition,
            write_chunk.delay,
            write_chunk.priority,
            write_chunk.labels,
            write_chunk.starts,
            write_chunk.packed_bodies
        );
    end if;

    if not pgq._note_task(
        write_chunk.write_id, write_chunk.task, write_chunk.task_attempt collate "C"
    ) then
        return false;
    end if;
    is_new := pgq._stage_chunk(
        target,
        write_chunk.write_id,
        write_chunk.task,
        write_chunk.chunk,
        write_chunk.lengths,
        write_chunk.packed_payloads,
        write_chunk.keys collate "C",
        write_chunk.headers,
        write_chunk.partition,
        write_chunk.delay,
        write_chunk.priority,
        write_chunk.labels,
        write_chunk.starts,
        write_chunk.packed_bodies
    );
    if write_chunk.last_chunk then
        perform pgq._note_last_chunk(write_chunk.write_id, write_chunk.task);
    end if;
    return is_new;
end
$$;

comment on function pgq.write_chunk(
    uuid, integer, text, integer, integer[], bytea, text[], jsonb[], integer, interval, integer,
    text[], boolean, integer[], bytea
) is
'Adds a chunk to a bulk write; false when it was written before, MQ008 when the write is lost.
Pass packed_payloads (JSON texts) or packed_bodies (raw bytes), not both: the contents of all
messages, one after the other without anything between them. lengths: the length of each content,
in bytes. keys, headers, partition, delay, priority and labels are as in publish_batch and
enqueue_batch. task and chunk are numbers from 0: a task numbers its own chunks. task_attempt is a
text that is different for each attempt to run the task.
In an atomic write, an attempt writes all its chunks in one transaction, and sets last_chunk in the
last one. When several attempts of a task commit, the first of them counts. In a write that is not
atomic, each chunk is published in the transaction of this call, once for each task and chunk: a
task that runs again must make the same chunks.
starts: the place of the first byte of each content, counted from 1; null: found from lengths. It
saves time when the whole chunk goes to one partition. Each content must start where the one before
it ends; this is not checked for every message.
The call waits while another open transaction has written the same chunk, or in an atomic write the
same task: only the end of that transaction shows which of the two counts. It waits at most 60 s for
each lock, also when the lock_timeout of the session is longer. After that, roll back and call it
again, or end the session that holds the lock (see pg_blocking_pids). Clients that can only insert
rows use the view write_chunks instead.
Errors: MQ007 unknown partition, MQ008 the write was committed, started again, aborted or
forgotten, its topic or queue was dropped, or the server crashed, 22003 a number in a payload is
beyond what the database can have, 22004 a required argument is null, no contents, or a null is in
lengths or starts, 22021 a payload is not text in the encoding of the database, 22023 bad arguments,
both kinds of contents, jobs that would expire before they are due, or another chunk was written
under the same numbers, 22P02 or 22P05 a payload is not JSON, 40001 above READ COMMITTED when
another transaction was first (try again), 54001 a payload is nested too deeply, 55P03 waited 60 s
for a lock (call it again), and those of publish_batch and enqueue_batch.';

-- ==== sql/bulk/_lock_write.sql

create function pgq._lock_write(write_id uuid)
returns pgq.bulk_write
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.bulk_write;
    is_marked boolean;
begin
    select w.*
    into target
    from pgq.bulk_write as w
    where w.write_id = _lock_write.write_id;

    if target.bulk_write_id is null then
        perform pgq._fail_write_lost(_lock_write.write_id, null);
    end if;
    if target.committed_at is not null then
        return target;
    end if;

    -- The mark first: open chunks hold it, and while this waits for them, begin_write and
    -- abort_write can still lock the row of the write.
    if target.atomic then
        perform
        from pgq.staged_write as s
        where s.write_id = target.write_id
        for update;
    else
        perform
        from pgq.published_write as g
        where g.bulk_write_id = target.bulk_write_id
        for update;
    end if;
    is_marked := found;

    select w.*
    into target
    from pgq.bulk_write as w
    where w.write_id = _lock_write.write_id
    for update;

    if target.bulk_write_id is null then
        perform pgq._fail_write_lost(
            _lock_write.write_id, 'It was started again, aborted or forgotten meanwhile.'
        );
    end if;
    if target.committed_at is null and not is_marked then
        perform pgq._fail_write_lost(
            _lock_write.write_id, 'The server crashed, and what was staged is gone.'
        );
    end if;
    return target;
end
$$;

comment on function pgq._lock_write(uuid) is
'The write of this id: committed, or open and locked with its mark, so that no chunk of it is under
way. Raises MQ008.';

-- ==== sql/bulk/_count_written.sql

create function pgq._count_written(target pgq.bulk_write, expected_messages bigint)
returns bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    total bigint;
    stale_task integer;
begin
    if (_count_written.target).atomic then
        perform pgq._fail_write_lost(
            (_count_written.target).write_id,
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
        where k.write_id = (_count_written.target).write_id
            and s.messages is distinct from k.messages
        order by k.task
        limit 1;

        select coalesce(sum(k.messages), 0)
        into total
        from pgq.staged_task as k
        where k.write_id = (_count_written.target).write_id;
    else
        select
            coalesce(sum(p.messages), 0),
            min(p.task) filter (where p.attempt < (_count_written.target).attempt)
        into total, stale_task
        from pgq.published_chunk as p
        where p.bulk_write_id = (_count_written.target).bulk_write_id;
    end if;

    if stale_task is not null then
        raise exception 'bulk write % had other tasks or chunks in an earlier attempt',
            (_count_written.target).write_id
            using errcode = '22023',
                detail = format(
                    'An earlier attempt published chunks of task %s that this one did not write; '
                    'their messages may have been published twice.', stale_task
                ),
                hint = 'A write that is repeated must have the same tasks and chunks. When its '
                    'input may be divided in another way, use atomic writes.';
    end if;
    if total <> _count_written.expected_messages then
        raise exception 'bulk write % has another number of messages than expected',
            (_count_written.target).write_id
            using errcode = '22023',
                detail = format(
                    'Expected: %s; written: %s.', _count_written.expected_messages, total
                ),
                hint = case
                    when (_count_written.target).atomic then 'Nothing was published.'
                    else 'The chunks that came have been published.'
                end;
    end if;
    return total;
end
$$;

comment on function pgq._count_written(pgq.bulk_write, bigint) is
'How many messages a bulk write has. Raises MQ008 when something that belongs to it is missing, and
22023 when the number is not the expected one, or when an earlier attempt published chunks that
this one did not write.';

-- ==== sql/bulk/_check_staged_delays.sql

create function pgq._check_staged_delays(write_id uuid, queue_id bigint)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgq._clock();
    late record;
begin
    select c.task, c.chunk, c.delay, q.queue, q.job_ttl
    into late
    from pgq.staged_chunk as c
    inner join pgq.queue as q on q.queue_id = _check_staged_delays.queue_id
    where c.write_id = _check_staged_delays.write_id
        and moment + c.delay >= moment + q.job_ttl
    order by c.task, c.chunk
    limit 1;

    if late.queue is not null then
        raise exception 'the jobs of chunk % of task % would expire before they are due',
            late.chunk, late.task
            using errcode = '22023',
                detail = format(
                    'Their delay is %s; the job_ttl of queue "%s" is %s by now.',
                    late.delay, late.queue, late.job_ttl
                ),
                hint = 'Nothing was published. Lengthen job_ttl with pgq.alter_queue and '
                    'call it again, or start the write again with another delay.';
    end if;
end
$$;

comment on function pgq._check_staged_delays(uuid, bigint) is
'Refuses staged jobs that a queue takes no longer, since its job_ttl has become shorter (22023).';

-- ==== sql/bulk/_publish_staged.sql

create function pgq._publish_staged(target pgq.bulk_write)
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
    made pgq.staged_chunk;
begin
    select t.partitions
    into partition_count
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
        elsif topic_name is not null and made.partition is null then
            -- Those without a key keep to the partition of their task, here too.
            perform pgq._publish_spread(
                topic_name,
                made.payloads,
                made.keys,
                made.headers,
                null,
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

    perform pgq._check_target(
        (_publish_staged.target).write_id,
        (_publish_staged.target).topic_id,
        (_publish_staged.target).queue_id
    );
end
$$;

comment on function pgq._publish_staged(pgq.bulk_write) is
'Publishes what was staged for an atomic write, in the order of tasks and chunks. Raises MQ008, and
22023 when a chunk has a delay that its queue does not allow any more.';

-- ==== sql/bulk/commit_write.sql

create function pgq.commit_write(write_id uuid, expected_messages bigint default null)
returns setof pgq.bulk_write_state
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '60s'
as $$
#variable_conflict use_column
declare
    target pgq.bulk_write;
    is_open boolean;
begin
    -- An old snapshot would not show all that was staged, and the rest would be lost.
    perform pgq._check_read_committed('commit_write');

    target := pgq._lock_write(commit_write.write_id);
    is_open := target.committed_at is null;
    if is_open then
        target.messages := pgq._count_written(target, commit_write.expected_messages);

        if target.atomic then
            perform pgq._publish_staged(target);
            perform pgq._forget_staged(target.write_id, null);
        else
            perform pgq._check_target(target.write_id, target.topic_id, target.queue_id);
            perform pgq._forget_published(target.bulk_write_id, null);
        end if;

        target.committed_at := pgq._clock();
        update pgq.bulk_write as w
        set
            committed_at = target.committed_at,
            messages = target.messages
        where w.bulk_write_id = target.bulk_write_id;

        perform pgq._forget_older(target);
    end if;

    return next row(target.write_id, target.messages, target.committed_at, not is_open)
        ::pgq.bulk_write_state;
end
$$;

comment on function pgq.commit_write(uuid, bigint) is
'Ends a bulk write; an atomic one publishes all that was staged, at once; MQ008 when it is lost.
It waits for transactions that have written chunks and are still open, and counts the chunks of
those that commit. Chunks of writers that come later are refused. The partitions that the write goes
to are locked for other publishers until the transaction of this call ends. In an atomic write,
messages of a task keep their order in each partition, tasks follow each other by number, and
messages without a key and without a partition go to partition number (task modulo the number of
partitions). Repeating the call does no harm: the result then has duplicate = true.
expected_messages: refuse the commit when the write has another number of messages; null: any
number. The call waits at most 60 s for each lock, also when the lock_timeout of the session is
longer. After that nothing has changed: call it again, or end the session that holds the lock (see
pg_blocking_pids).
Errors: MQ008 the write was started again, aborted or forgotten, its topic or queue was dropped,
or a part of what was staged is missing (start it again), 22004 a required argument is null, 22023
another number of messages than expected, a write that is not atomic was started again and made
other chunks, or the queue does not allow a delay that was staged any more, 25001 not under READ
COMMITTED, 55P03 waited 60 s for a lock (call it again), and those of publish_batch and
enqueue_batch.';

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
set lock_timeout = '60s'
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
        perform pgq._check_no_write(abort_write.write_id);
        return false;
    end if;

    -- This waits for no open chunk: cleanup removes what they leave behind.
    if target.atomic then
        perform pgq._forget_staged(target.write_id, null);
    elsif target.producer is null then
        perform pgq._forget_published(target.bulk_write_id, null);
    end if;

    if target.atomic or target.producer is null then
        delete from pgq.bulk_write as w
        where w.bulk_write_id = target.bulk_write_id;
    else
        -- What was published stays, and is left out when the write is started again.
        update pgq.bulk_write as w
        set write_id = gen_random_uuid()
        where w.bulk_write_id = target.bulk_write_id;
    end if;
    return true;
end
$$;

comment on function pgq.abort_write(uuid) is
'Gives up a bulk write: removes what was staged for it, and refuses writers that come later.
False when there is no write of this id, or when it is committed. Chunks that were published before
stay in the topic or queue, and so do chunks of transactions that are still open and then commit;
when the same producer begins the write again, these are left out.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again), 55P03 waited 60 s for a lock (call it again).';

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
        write_id => new.write_id::uuid,
        task => new.task,
        task_attempt => new.task_attempt,
        chunk => new.chunk,
        lengths => new.lengths,
        packed_payloads => new.packed_payloads,
        keys => new.keys,
        headers => new.headers::jsonb[],
        partition => new.partition,
        delay => new.delay::interval,
        priority => new.priority,
        labels => new.labels,
        last_chunk => new.last_chunk,
        starts => new.starts,
        packed_bodies => new.packed_bodies
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
        key => new.key,
        headers => new.headers::jsonb,
        delay => new.delay::interval,
        run_at => new.run_at,
        priority => new.priority,
        label => new.label,
        idempotency_key => new.idempotency_key,
        body => new.body
    );
    return new;
end
$$;

comment on function pgq._enqueue_row() is
'Calls enqueue for each row inserted into enqueue_rows.';

-- ==== sql/bulk/_dropped_targets.sql

create function pgq._dropped_targets()
returns table (topic_id bigint, queue_id bigint)
language sql
stable
parallel safe
as $$
-- From one target to the next in the index, so that it takes a step for each and not for each
-- write.
with recursive target as (
    (
        select coalesce(w.topic_id, 0) as topic_id, coalesce(w.queue_id, 0) as queue_id
        from pgq.bulk_write as w
        order by 1, 2
        limit 1
    )
    union all
    select n.topic_id, n.queue_id
    from target as t
    cross join lateral (
        select coalesce(w.topic_id, 0) as topic_id, coalesce(w.queue_id, 0) as queue_id
        from pgq.bulk_write as w
        where (coalesce(w.topic_id, 0), coalesce(w.queue_id, 0)) > (t.topic_id, t.queue_id)
        order by 1, 2
        limit 1
    ) as n
)

select d.topic_id, d.queue_id
from target as d
where not exists (select from pgq.topic as t where t.topic_id = d.topic_id)
    and not exists (select from pgq.queue as q where q.queue_id = d.queue_id)
$$;

comment on function pgq._dropped_targets() is
'The topics and queues that bulk writes went to and that are dropped by now; 0 stands for none.';

-- ==== sql/bulk/_forget_write.sql

create function pgq._forget_write(bulk_write_id bigint)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.bulk_write;
begin
    select w.*
    into target
    from pgq.bulk_write as w
    where w.bulk_write_id = _forget_write.bulk_write_id
    for update skip locked;

    if target.bulk_write_id is null then
        return false;
    end if;

    -- A chunk that is about to be published keeps its write, so that it is not published again by
    -- one that has forgotten it.
    if target.committed_at is null and not target.atomic then
        perform
        from pgq.published_write as g
        where g.bulk_write_id = target.bulk_write_id
        for update skip locked;

        if not found then
            return false;
        end if;
    end if;

    delete from pgq.bulk_write as w
    where w.bulk_write_id = target.bulk_write_id;

    return true;
end
$$;

comment on function pgq._forget_write(bigint) is
'Forgets a bulk write; false when somebody is at work on it.';

-- ==== sql/bulk/_clean_writes.sql

create function pgq._clean_writes(moment timestamptz)
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    -- One call does so much of each; the next one goes on.
    most constant integer := 1000;
    room integer;
    seen integer := 0;
    forgotten integer := 0;
    removed integer;
    unfinished boolean;
    target record;
begin
    -- Given up: nobody came to commit them, or there is nothing left to write to.
    for target in
        select w.bulk_write_id, w.write_id
        from pgq.bulk_write as w
        where w.committed_at is null
            and w.expires_at <= _clean_writes.moment
        order by w.expires_at
        limit most
        for update skip locked
    loop
        seen := seen + 1;
        continue when not pgq._forget_write(target.bulk_write_id);

        forgotten := forgotten + 1;
        return next row('bulk write forgotten', target.write_id::text, 1)::pgq.cleanup_action;
    end loop;
    -- Where all those that one call looks at are in use, the next one would find the same.
    unfinished := seen = most and forgotten > 0;

    seen := 0;
    forgotten := 0;
    for target in
        select w.bulk_write_id, w.write_id, w.committed_at is null as was_open
        from pgq._dropped_targets() as d
        cross join lateral (
            select o.bulk_write_id, o.write_id, o.committed_at
            from pgq.bulk_write as o
            where coalesce(o.topic_id, 0) = d.topic_id
                and coalesce(o.queue_id, 0) = d.queue_id
            limit most
        ) as w
        limit most
    loop
        seen := seen + 1;
        continue when not pgq._forget_write(target.bulk_write_id);

        forgotten := forgotten + 1;
        if target.was_open then
            return next row(
                'bulk write forgotten', target.write_id::text, 1
            )::pgq.cleanup_action;
        end if;
    end loop;
    unfinished := unfinished or seen = most and forgotten > 0;

    delete from pgq.bulk_producer as p
    where not exists (
        select
        from pgq.topic as t
        where t.topic_id = p.topic_id
    )
        and not exists (
            select
            from pgq.queue as q
            where q.queue_id = p.queue_id
        );

    -- Writes that no producer can ask for again are kept a day, for a repeated commit_write.
    delete from pgq.bulk_write as w
    where w.bulk_write_id = any(
        array(
            select o.bulk_write_id
            from pgq.bulk_write as o
            where o.producer is null
                and o.committed_at <= _clean_writes.moment - interval '1 day'
            order by o.committed_at
            limit most
            for update skip locked
        )
    );
    get diagnostics removed = row_count;
    unfinished := unfinished or removed = most;

    -- What is left of writes that have ended, where no chunk is open.
    room := most;
    for target in
        select s.write_id
        from pgq.staged_write as s
        where not exists (
            select
            from pgq.bulk_write as w
            where w.write_id = s.write_id
                and w.committed_at is null
        )
    loop
        removed := pgq._forget_staged(target.write_id, room);
        room := room - coalesce(removed, 0);

        if room > 0 and removed is not null then
            return next row(
                'staged write removed', target.write_id::text, 1
            )::pgq.cleanup_action;
        end if;
        exit when room = 0;
    end loop;
    unfinished := unfinished or room = 0;

    room := most;
    for target in
        select g.bulk_write_id
        from pgq.published_write as g
        where not exists (
            select
            from pgq.bulk_write as w
            where w.bulk_write_id = g.bulk_write_id
                and w.committed_at is null
        )
    loop
        removed := pgq._forget_published(target.bulk_write_id, room);
        room := room - coalesce(removed, 0);
        exit when room = 0;
    end loop;

    if unfinished or room = 0 then
        return next row('more', 'writes', 1)::pgq.cleanup_action;
    end if;
end
$$;

comment on function pgq._clean_writes(timestamptz) is
'The part of cleanup that forgets bulk writes nobody commits, and what was staged for them.
It waits for nobody, and removes 1000 of a kind at most.';

-- ==== sql/schedule/_fail_unknown_schedule.sql

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

comment on function pgq._fail_unknown_schedule(text) is
'Raises MQ009, or 22004 when no name was given.';

-- ==== sql/schedule/_fail_cron.sql

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

comment on function pgq._fail_cron(text) is
'Refuses a cron expression (22023); the detail says what is wrong with it.';

-- ==== sql/schedule/_check_time_zone.sql

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

comment on function pgq._check_time_zone(text) is
'Refuses a time zone that the server does not know by this name (22023).';

-- ==== sql/schedule/_cron_field.sql

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

comment on function pgq._cron_field(text, text, integer, integer, text[]) is
'The numbers that a field of a cron expression stands for; refuses what is none (22023).
names: those of the numbers from the lowest on. Where 7 is the highest it is the same as 0.';

-- ==== sql/schedule/_cron_times.sql

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

comment on function pgq._cron_times(text) is
'What a cron expression says; refuses what is none, and what never comes (22023).';

-- ==== sql/schedule/_next_minute.sql

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

comment on function pgq._next_minute(pgq._cron_times, timestamp) is
'The first local time after another one that a cron expression names.
A date that falls on a certain weekday comes after 40 years at most: February 29, beside a year like
2100. So the search is over after some hundred months and days.';

-- ==== sql/schedule/_moment_of.sql

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

comment on function pgq._moment_of(timestamp, text, boolean, timestamptz) is
'When a local time comes in a time zone whose clocks are put forward and back.
One that is skipped comes at the first moment after the gap, but in real time never (null). One that
comes twice is the first of the two, but in real time the first that is not over.';

-- ==== sql/schedule/_cron_tick.sql

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

comment on function pgq._cron_tick(pgq._cron_times, text, timestamptz) is
'The first moment after another one that a cron expression names in a time zone.';

-- ==== sql/schedule/_next_tick.sql

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

comment on function pgq._next_tick(
    pgq._cron_times, interval, text, timestamptz, timestamptz
) is
'The first tick of a schedule after a moment.';

-- ==== sql/schedule/_last_tick.sql

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

comment on function pgq._last_tick(
    pgq._cron_times, interval, text, timestamptz, timestamptz, timestamptz
) is
'The last tick of a schedule that is not after a moment, given one that is not.';

-- ==== sql/schedule/_check_schedule.sql

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

comment on function pgq._check_schedule(pgq.schedule_info) is
'Refuses settings that a schedule cannot have (22004, 22023).';

-- ==== sql/schedule/_check_schedule_target.sql

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

comment on function pgq._check_schedule_target(text, text, integer) is
'Refuses a queue, a topic or a partition that is not there (MQ001, MQ002, MQ007).';

-- ==== sql/schedule/_schedule_info.sql

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

comment on function pgq._schedule_info(text) is
'A schedule and its settings; no row when there is none of that name.';

-- ==== sql/schedule/create_schedule.sql

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

-- ==== sql/schedule/alter_schedule.sql

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

-- ==== sql/schedule/drop_schedule.sql

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

comment on function pgq.drop_schedule(text) is
'Removes a schedule; what it has written stays.
It waits for a run_schedules that is writing a tick of the schedule.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';

-- ==== sql/schedule/list_schedules.sql

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

comment on function pgq.list_schedules(text) is
'A schedule, or all of them, by name: settings, next and last tick, and the last error.
Errors: MQ009 unknown schedule.';

-- ==== sql/schedule/pause_schedule.sql

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

comment on function pgq.pause_schedule(text) is
'Has run_schedules leave out a schedule until resume_schedule; a paused schedule stays paused.
It waits for a run_schedules that is writing a tick of the schedule.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';

-- ==== sql/schedule/resume_schedule.sql

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

comment on function pgq.resume_schedule(text) is
'Has run_schedules write the ticks of a schedule again; nothing changes if it is not paused.
Those that came during the pause were missed: the setting missed says what becomes of them.
Errors: MQ009 unknown schedule, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';

-- ==== sql/schedule/next_ticks.sql

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

comment on function pgq.next_ticks(text, text, timestamptz, integer) is
'The next times that a cron expression names, to try it out before it is used.
See create_schedule for cron and time_zone. after: by default now. max_ticks: how many, by default
10.
Errors: 22004 a required argument is null, 22023 bad argument.';

-- ==== sql/schedule/_run_schedule.sql

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

comment on function pgq._run_schedule(text, timestamptz, integer) is
'Writes what is due of a schedule at a moment, at most so many ticks, and moves its next tick.';

-- ==== sql/schedule/run_schedules.sql

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

-- ==== sql/retention/_clean_leftovers.sql

create function pgq._clean_leftovers(
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

        if target.queue_id is not null then
            -- Jobs that live on keep their payloads, elsewhere.
            return query
            select r.*
            from pgq._carry_jobs(
                target.segment, target.queue_id, _clean_leftovers.moment, budget::integer
            ) as r;
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
            and pgq._has_jobs(target.segment, target.queue_id);

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

comment on function pgq._clean_leftovers(pg_snapshot, xid8, timestamptz) is
'The part of cleanup that deletes what was stored without a retention and is not to be kept any
more.';

-- ==== sql/retention/_clean_windows.sql

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

comment on function pgq._clean_windows(pg_snapshot, xid8, timestamptz) is
'The part of cleanup that forgets former windows of idempotency keys.';

-- ==== sql/retention/_close_segments.sql

create function pgq._close_segments(
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

        update pgq.segment as s
        set
            state = 'closed',
            closed_at = _close_segments.moment
        where s.segment = target.segment;

        return next row('segment closed', target.segment::text, 1)::pgq.cleanup_action;
    end loop;
end
$$;

comment on function pgq._close_segments(pg_snapshot, xid8, timestamptz) is
'The part of cleanup that closes sealed segments once nobody can write to them any more.';

-- ==== sql/retention/_class_in_use.sql

create function pgq._class_in_use(storage_class_id bigint)
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

-- ==== sql/retention/_segment_due.sql

create function pgq._segment_due(storage_class_id bigint, moment timestamptz)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    class pgq.storage_class;
    opened_at timestamptz;
begin
    select c.*
    into class
    from pgq.storage_class as c
    where c.storage_class_id = _segment_due.storage_class_id;

    select s.opened_at
    into opened_at
    from pgq.segment as s
    where s.segment = class.segment;

    if opened_at > _segment_due.moment then
        -- The clock was ahead when it was opened.
        update pgq.segment as s
        set opened_at = _segment_due.moment
        where s.segment = class.segment;
        opened_at := _segment_due.moment;
    end if;

    if (opened_at + class.retention / 3 <= _segment_due.moment) is true
        or (
            pg_table_size(to_regclass('pgq.message_' || class.segment)) > class.max_bytes / 3
        ) is true
    then
        return true;
    end if;

    -- One that nobody uses any more goes at once.
    return not pgq._class_in_use(class.storage_class_id);
end
$$;

comment on function pgq._segment_due(bigint, timestamptz) is
'Whether a storage class has to move to another segment, or can be removed: its open one is old
or large enough, or nobody uses it.';

-- ==== sql/retention/_seal_segment.sql

create function pgq._seal_segment(storage_class_id bigint, moment timestamptz, wait boolean)
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

comment on function pgq._seal_segment(bigint, timestamptz, boolean) is
'Moves a storage class to a new segment when its open one is old or large enough, and returns
the number of the one before; forgets a class that is out of use.';

-- ==== sql/retention/_seal_segments.sql

create function pgq._seal_segments(moment timestamptz)
returns setof pgq.cleanup_action
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    class_id bigint;
    sealed integer;
    met_lock boolean := false;
    -- One call does so many: it keeps locks on the leaves that it makes.
    room integer := 100;
begin
    foreach class_id in array array(
        select c.storage_class_id from pgq.storage_class as c order by c.storage_class_id
    ) loop
        -- Each for itself: one that is busy does not hinder the others.
        begin
            -- Those who restore a dump without messages have none.
            perform pgq._mark_segment(c.segment)
            from pgq.storage_class as c
            where c.storage_class_id = class_id
                and c.segment is not null;

            sealed := pgq._seal_segment(class_id, _seal_segments.moment, not met_lock);
            if sealed is not null then
                return next row('segment sealed', sealed::text, 1)::pgq.cleanup_action;
                room := room - 1;
            end if;
        exception
            when lock_not_available then
                -- One wait is enough: publishers may be waiting behind this.
                met_lock := true;
                return next row('busy', 'sealing', 1)::pgq.cleanup_action;
        end;

        if room = 0 then
            return next row('more', 'sealing', 1)::pgq.cleanup_action;
            exit;
        end if;
    end loop;
end
$$;

comment on function pgq._seal_segments(timestamptz) is
'The part of cleanup that moves storage classes to a new segment, and removes those out of
use. It seals 100 at most.';

-- ==== sql/retention/_truncate_segment.sql

create function pgq._truncate_segment(segment integer, wait boolean)
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

comment on function pgq._truncate_segment(integer, boolean) is
'Empties a segment that nobody needs any more, unless somebody is reading it.';

-- ==== sql/retention/_truncate_segments.sql

create function pgq._truncate_segments(moment timestamptz)
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
                    target.segment, null, _truncate_segments.moment, budget::integer
                ) as r
            loop
                budget := budget - report.amount;
                return next report;
            end loop;
        end if;

        -- None can come to it any more: it is closed, and who changes a job leaves the payload
        -- where it is.
        if pgq._has_jobs(target.segment, null) then
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

comment on function pgq._truncate_segments(timestamptz) is
'The part of cleanup that empties closed segments whose messages are older than their retention,
100 at most.';

-- ==== sql/retention/cleanup.sql

create function pgq.cleanup()
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
        'writes',
        'leftovers',
        'truncation',
        'positions',
        'windows',
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

-- ==== sql/shared/kept_grant.sql

-- An upgrade cannot grant this itself: what the script of an extension grants counts as the
-- extension's own, and no dump has it.
create table pgq.kept_grant (
    statement text primary key
);

create constraint trigger kept_grant
after insert on pgq.kept_grant
deferrable initially deferred
for each row execute function pgq._give_back_grant();

comment on table pgq.kept_grant is
'What others were granted on functions and views that an upgrade makes anew: noted while it runs,
granted again when its transaction ends, then removed.';
comment on column pgq.kept_grant.statement is 'The GRANT.';

-- ==== sql/store/leaves.sql

-- The leaves that an installation starts with: those that statements name. More are made when all
-- of these are in use.
do $leaves$
begin
    for leaf in 0 .. 15 loop
        perform pgq._create_leaf(leaf);
        insert into pgq.leaf (leaf, free)
        values (leaf, true);
    end loop;
end
$leaves$;

-- ==== sql/log/views.sql

-- Whoever reads a view needs the right to the functions in it, though not to its tables. So the
-- views do not use the helpers, except for two that are open to all; the one that shows data asks
-- for a key that only the views can read.
-- The linter cannot lay out lateral joins.
-- noqa: disable=AM09,LT02,LT09,LT14,ST05,ST09

create view pgq.messages
with (security_barrier) as
select
    p.topic,
    p.partition,
    m.log_offset,
    m.published_at,
    m.key,
    m.headers,
    m.payload,
    m.body,
    m.partition_id
from pgq.partition as p
cross join lateral (
    select min(r.first_offset) as first_offset
    from pgq.segment_range as r
    where r.partition_id = p.partition_id
) as f
inner join pgq.message as m
    on m.partition_id = p.partition_id
    and m.log_offset >= f.first_offset;

comment on view pgq.messages is
'The messages of all topics, for reading in bulk: whole ranges, by several sessions at once.
Name the partition by partition_id = (select pgq.check_range(...)), and the offsets: that is an
index scan, and an error when retention has removed a part of it. Rows come in any order. Whoever
reads the view keeps cleanup from emptying any segment until the transaction ends: keep it short, or
read with fetch_range.';
comment on column pgq.messages.topic is 'The topic.';
comment on column pgq.messages.partition is 'The partition, from 0.';
comment on column pgq.messages.log_offset is 'Its offset in the partition, from 1.';
comment on column pgq.messages.published_at is 'When it was published.';
comment on column pgq.messages.key is 'Its key; null: none.';
comment on column pgq.messages.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.messages.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.messages.body is 'Its content as raw bytes; null when it has a payload.';
comment on column pgq.messages.partition_id is 'What check_range returns for its partition.';

create view pgq.group_lag
with (security_barrier) as
select
    l.topic,
    l.consumer_group,
    l.partition,
    q.next_offset - 1 as committed_offset,
    s.last_offset,
    s.last_offset - q.next_offset + 1 as lag,
    s.published_at as oldest_published_at,
    case when q.leased_until > pgq._clock() then q.leased_until end as leased_until
from pgq.group_partition as l
inner join pgq.partition as p on p.partition_id = l.partition_id
cross join lateral (
    select j.next_offset, j.leased_until
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

comment on view pgq.group_lag is
'How far each consumer group is behind, per partition; lag = last_offset - committed_offset.';
comment on column pgq.group_lag.topic is 'The topic.';
comment on column pgq.group_lag.consumer_group is 'The group.';
comment on column pgq.group_lag.partition is 'The partition, from 0.';
comment on column pgq.group_lag.committed_offset is
'The last offset that the group has processed; 0: none. It reads the next one.';
comment on column pgq.group_lag.last_offset is
'The newest offset of the partition; 0: no message yet.';
comment on column pgq.group_lag.lag is
'How many messages the group has still to read, those that retention has removed included.';
comment on column pgq.group_lag.oldest_published_at is
'When the next message for the group was published; null: it has caught up.';
comment on column pgq.group_lag.leased_until is
'Until when a member has the partition; null: nobody.';

create view pgq.topic_stats
with (security_barrier) as
select
    p.topic,
    p.partition,
    s.first_offset,
    s.last_offset,
    s.last_offset - s.first_offset + 1 as messages,
    s.last_offset + 1 - s.since_offset as published_last_minute
from pgq.partition as p
cross join lateral pgq._partition_figures(
    (select k.key from pgq.view_key as k),
    p.partition_id,
    p.segment,
    p.segment_first_offset,
    null,
    pgq._clock() - interval '1 minute'
) as s;

comment on view pgq.topic_stats is 'What each topic partition holds, and how much came in lately.';
comment on column pgq.topic_stats.topic is 'The topic.';
comment on column pgq.topic_stats.partition is 'The partition, from 0.';
comment on column pgq.topic_stats.first_offset is 'The oldest offset that is kept.';
comment on column pgq.topic_stats.last_offset is
'The newest offset; 0: no message yet.';
comment on column pgq.topic_stats.messages is 'How many messages are kept.';
comment on column pgq.topic_stats.published_last_minute is
'How many came in during the last minute.';

-- ==== sql/queue/views.sql

-- Whoever reads a view needs the right to the functions in it, though not to its tables: the clock
-- is open to all, and no other is used.
-- The linter cannot lay out lateral joins.
-- noqa: disable=AM09,LT02,LT09,LT14,ST05,ST09

create view pgq.queue_stats
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
        count(*) filter (where not e.expired and j.visible_at <= c.moment) as ready,
        count(*) filter (where j.visible_at > c.moment and j.lease_token is not null) as leased,
        count(*) filter (
            where not e.expired and j.visible_at > c.moment and j.lease_token is null
        ) as delayed,
        count(*) filter (
            where e.expired and not (j.visible_at > c.moment and j.lease_token is not null)
        ) as expired,
        min(j.visible_at) filter (where not e.expired and j.visible_at <= c.moment) as oldest,
        count(*) as unfinished
    from pgq.job as j
    cross join lateral (
        select coalesce(j.expires_at <= c.moment, false) as expired
    ) as e
    where j.queue_id = q.queue_id
) as s
left join lateral (
    select l.job_cost, l.credit, l.refilled_at
    from pgq.claim_count as l
    where l.queue_id = q.queue_id
    order by l.seq desc
    limit 1
) as n on true;

comment on view pgq.queue_stats is 'How many jobs each queue has, by state.';
comment on column pgq.queue_stats.queue is 'The queue.';
comment on column pgq.queue_stats.ready is
'Jobs that are due, also while the queue is paused, and those that lost their worker on the last
attempt, until they become dead letters.';
comment on column pgq.queue_stats.leased is 'Jobs that a worker has.';
comment on column pgq.queue_stats.delayed is 'Jobs whose time has not come.';
comment on column pgq.queue_stats.expired is
'Jobs past the job_ttl of their queue, until cleanup removes them.';
comment on column pgq.queue_stats.dead is 'Dead letters.';
comment on column pgq.queue_stats.oldest_ready_at is
'Since when the job that is due longest has been due; null: none is.';
comment on column pgq.queue_stats.paused is 'Whether claims get nothing for now.';
comment on column pgq.queue_stats.held_by is
'Why claims get nothing now, whatever is due: paused, max_leased or rate_limit; null: they do.';
comment on column pgq.queue_stats.is_full is
'Whether enqueue fails now: there are as many unfinished jobs as max_unfinished, or more.';

create view pgq.dead_letters
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
    m.body
from pgq.dead_job as d
inner join pgq.queue as q on q.queue_id = d.queue_id
left join pgq.message as m
    on m.segment = d.segment
    and m.partition_id = d.partition_id
    and m.log_offset = d.log_offset;

comment on view pgq.dead_letters is
'Jobs that were given up after their last attempt; pgq.redrive puts them back, pgq.purge_queue
removes them.';
comment on column pgq.dead_letters.queue is 'The queue.';
comment on column pgq.dead_letters.job_id is 'The id of the job.';
comment on column pgq.dead_letters.attempt is 'How many attempts it had.';
comment on column pgq.dead_letters.last_error is
'What the last nack said; if the lease of the last attempt ran out, that in a line of its own.';
comment on column pgq.dead_letters.enqueued_at is 'When it was enqueued.';
comment on column pgq.dead_letters.died_at is 'When it became a dead letter.';
comment on column pgq.dead_letters.priority is '0 (first) to 9 (last).';
comment on column pgq.dead_letters.key is 'Its key; null: none.';
comment on column pgq.dead_letters.label is 'Its label; null: none.';
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
    m.key,
    a.label,
    m.headers,
    m.payload,
    m.body
from pgq.job_archive as a
inner join pgq.queue as q on q.queue_id = a.queue_id
left join pgq.message as m
    on m.segment = a.segment
    and m.partition_id = coalesce(a.partition_id, q.partition_id)
    and m.log_offset = coalesce(a.log_offset, a.job_id);

comment on view pgq.archived_jobs is
'Jobs that were finished or cancelled or have expired, until they are older than the retention of
their queue.';
comment on column pgq.archived_jobs.queue is 'The queue.';
comment on column pgq.archived_jobs.job_id is 'The id of the job.';
comment on column pgq.archived_jobs.outcome is
'acked, expired, cancelled, or what archive_job was told.';
comment on column pgq.archived_jobs.attempt is 'How many attempts it had.';
comment on column pgq.archived_jobs.enqueued_at is 'When it was enqueued.';
comment on column pgq.archived_jobs.ended_at is 'When it was finished or cancelled, or expired.';
comment on column pgq.archived_jobs.result is 'What archive_job was given; null: nothing.';
comment on column pgq.archived_jobs.last_error is 'The error of the last nack before; null: none.';
comment on column pgq.archived_jobs.key is 'Its key; null: none.';
comment on column pgq.archived_jobs.label is 'Its label; null: none.';
comment on column pgq.archived_jobs.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.archived_jobs.payload is 'Its content as JSON; null when it had a body.';
comment on column pgq.archived_jobs.body is 'Its content as raw bytes; null when it had a payload.';

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

-- ==== sql/bulk/views.sql

-- For clients that can only insert, JDBC writers among them. Columns stand in the order of the
-- function's arguments, with the types that a JDBC driver sends: text in the place of uuid, jsonb
-- and interval.

create view pgq.write_chunks as
select
    null::text as write_id,
    null::integer as task,
    null::text as task_attempt,
    null::integer as chunk,
    null::integer[] as lengths,
    null::bytea as packed_payloads,
    null::text[] as keys,
    null::text[] as headers,
    null::integer as partition,
    null::text as delay,
    null::integer as priority,
    null::text[] as labels,
    null::boolean as last_chunk,
    null::integer[] as starts,
    null::bytea as packed_bodies
where false;

create trigger write_chunks
instead of insert on pgq.write_chunks
for each row execute function pgq._write_chunk_row();

comment on view pgq.write_chunks is
'Always empty; a row that is inserted is a call of write_chunk.';
comment on column pgq.write_chunks.write_id is 'The id that begin_write returned.';
comment on column pgq.write_chunks.task is 'The number of the task, from 0.';
comment on column pgq.write_chunks.task_attempt is
'A text that is different for each attempt to run the task.';
comment on column pgq.write_chunks.chunk is 'The number of the chunk within its task, from 0.';
comment on column pgq.write_chunks.lengths is 'The length of each content, in bytes.';
comment on column pgq.write_chunks.packed_payloads is
'The contents as JSON texts, one after the other; null: they are raw bytes.';
comment on column pgq.write_chunks.keys is 'The key of each message; null: no keys.';
comment on column pgq.write_chunks.headers is
'The headers of each message, JSON objects; null: no headers.';
comment on column pgq.write_chunks.partition is 'The partition to publish to; null: see publish.';
comment on column pgq.write_chunks.delay is 'The delay of jobs, an interval; null: the queue''s.';
comment on column pgq.write_chunks.priority is 'The priority of jobs; null: 0.';
comment on column pgq.write_chunks.labels is 'The label of each job; null: no labels.';
comment on column pgq.write_chunks.last_chunk is
'Whether this is the last chunk of its task; null: it is not.';
comment on column pgq.write_chunks.starts is
'The place of the first byte of each content, from 1; null: found from lengths.';
comment on column pgq.write_chunks.packed_bodies is
'The contents as raw bytes, one after the other; null: they are JSON texts.';

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

create trigger publish_rows
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
    null::bytea as body
where false;

create trigger enqueue_rows
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
comment on column pgq.enqueue_rows.body is 'Its content as raw bytes; null when it has a payload.';

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

-- ==== sql/shared/privileges.sql

-- Nobody may call anything until the owner grants it.
revoke all on all tables in schema pgq from public;
revoke all on all sequences in schema pgq from public;
revoke all on all functions in schema pgq from public;
-- Whoever reads a view needs the right to the functions in it.
grant execute on function pgq._clock() to public;
grant execute on function pgq._partition_figures(
    uuid, bigint, integer, bigint, bigint, timestamptz
) to public;
