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
    -- Here, so that ack reads no more of the row than before.
    fast_archive boolean generated always as (case when not keep_results then archive end) stored,
    notify boolean not null,
    paused boolean not null default false,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    idempotency_window interval not null default '1 day',
    unique_until text collate "C" not null default 'finished',
    ordered boolean not null default false,
    after_dead_letter text collate "C" not null default 'continue',
    max_leased integer,
    rate_limit integer,
    rate_interval interval,
    rate_burst integer,
    max_unfinished integer,
    subscribed boolean not null default false,
    max_leased_per_key integer,
    has_fast_enqueue boolean not null generated always as (
        not notify
        and not ordered
        and max_unfinished is null
        and max_message_bytes >= 12288
    ) stored,
    has_fast_claim boolean not null generated always as (
        not paused
        and not ordered
        and not subscribed
        and max_leased is null
        and max_leased_per_key is null
        and rate_limit is null
    ) stored,
    restricted boolean not null default false,
    publishers text[] collate "C",
    consumers text[] collate "C",
    made_by text collate "C",
    max_message_bytes integer not null,
    keep_results boolean not null,
    on_duplicate text collate "C" not null,
    debounce_max interval
);

comment on table pgq.queue is 'Queues of jobs and their settings.';
comment on column pgq.queue.queue is 'Queue name.';
comment on column pgq.queue.max_message_bytes is
'Limit of the size of a job''s content, in bytes; see create_queue.';
comment on column pgq.queue.keep_results is
'Whether get_result knows its jobs after they have finished, expired or were cancelled.';
comment on column pgq.queue.on_duplicate is
'What a duplicate does to the waiting job that holds its unique key: keep, replace or postpone.';
comment on column pgq.queue.debounce_max is
'How long after its first enqueue a job is postponed; null: no limit.';
comment on column pgq.queue.fast_archive is
'Fast path: whether a finished job is archived and no more; null: keep_results needs more.';
comment on column pgq.queue.made_by is
'The role that created it, which may restrict it; null: the owner of pgq.';
comment on column pgq.queue.partition_id is 'Its id in the message store.';
comment on column pgq.queue.storage_class_id is 'Storage class of its payloads.';
comment on column pgq.queue.segment is
'The open segment of its storage class, to which new payloads go.';
comment on column pgq.queue.lease is
'How long a claim leases a job, unless the claim gives a time of its own.';
comment on column pgq.queue.max_attempts is
'Attempts before a job becomes a dead letter; null: no limit.';
comment on column pgq.queue.delay is 'Time from enqueue to the first attempt.';
comment on column pgq.queue.job_ttl is
'Time from enqueue until an unfinished job expires; null: never.';
comment on column pgq.queue.retention is
'How long finished jobs and dead letters are kept; null: without limit.';
comment on column pgq.queue.backoff is
'Delay before the first retry; doubled for each further one.';
comment on column pgq.queue.backoff_max is 'Longest delay before a retry, without the jitter.';
comment on column pgq.queue.backoff_jitter is
'Jitter: up to this share of the delay is added at random.';
comment on column pgq.queue.archive is
'Whether a job that ack finishes, or that expires or is cancelled, is recorded in job_archive.';
comment on column pgq.queue.notify is 'Whether enqueue notifies the channel pgq_queue.';
comment on column pgq.queue.paused is 'Whether the queue is paused, so that claims return no jobs.';
comment on column pgq.queue.created_at is 'When it was created.';
comment on column pgq.queue.updated_at is 'When its settings last changed.';
comment on column pgq.queue.idempotency_window is
'How long an idempotency key identifies the job that it was first given with.';
comment on column pgq.queue.unique_until is
'How long a job keeps other jobs of its unique_key out: until it is finished, claimed or removed.';
comment on column pgq.queue.ordered is
'Whether the jobs of one key are handed out one at a time, in the order of their commits.';
comment on column pgq.queue.after_dead_letter is
'What happens to the jobs of a key when one of them becomes a dead letter: they continue, or stop
until the dead letter is redriven or removed.';
comment on column pgq.queue.max_leased is 'Limit of jobs leased at one time; null: no limit.';
comment on column pgq.queue.rate_limit is
'Limit of jobs handed out per rate_interval; null: no limit.';
comment on column pgq.queue.rate_interval is 'Interval of the rate_limit; null: no rate_limit.';
comment on column pgq.queue.rate_burst is
'Limit of jobs handed out at once after a pause; null: no rate_limit.';
comment on column pgq.queue.max_unfinished is
'Number of unfinished jobs at which enqueue fails; null: no limit.';
comment on column pgq.queue.subscribed is
'Whether it may have rows in job_extent, so that claims have to look there.';
comment on column pgq.queue.max_leased_per_key is
'Limit of jobs of one key leased at one time; null: no limit.';
comment on column pgq.queue.restricted is
'Whether only roles with a grant may use it, see grant_access.';
comment on column pgq.queue.publishers is
'The roles that may enqueue, see _settle_access; null: EXECUTE decides.';
comment on column pgq.queue.consumers is 'The roles that may claim; null: EXECUTE decides.';
comment on column pgq.queue.has_fast_enqueue is
'Fast path: no setting makes an enqueue do more than write the job.';
comment on column pgq.queue.has_fast_claim is
'Fast path: no setting makes a claim do more than lease due jobs.';

create sequence pgq.job_id as bigint cache 1;

comment on sequence pgq.job_id is 'Job ids, unique over all queues.';

-- Delete and insert instead of update: a claim with an older snapshot then finds the row gone and
-- locks nothing. After an update it would lock the new version before it checks whether that is
-- due, and keep the lock until its transaction ends.
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
    last_attempt boolean default false,
    lease_token uuid,
    label text collate "C",
    last_error text,
    unique_key text collate "C",
    max_attempts integer,
    ordered_key text collate "C",
    due_at timestamptz
)
with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create index job_claim on pgq.job (queue_id, priority, visible_at, job_id);
-- No other index has the negative id: whatever the statistics say, a claim by label cannot be
-- planned along all jobs of the queue. It comes before the label, so that the labels of a queue can
-- be found one after the other.
create index job_label on pgq.job ((-queue_id), label, priority, visible_at, job_id)
where label is not null;
-- Jobs on their last attempt: dead letters once their worker is lost.
create index job_last on pgq.job (visible_at) where last_attempt;
-- No other index has job_id + 0: the search for a key's next job cannot be planned along all jobs.
create index job_ordered on pgq.job (queue_id, ordered_key, (job_id + 0))
where ordered_key is not null;

comment on table pgq.job is 'Unfinished jobs, in narrow rows: the payloads are in pgq.message.';
comment on column pgq.job.job_id is 'Job id.';
comment on column pgq.job.partition_id is
'The partition_id under which its payload is stored: the queue''s, or a topic partition''s.';
comment on column pgq.job.log_offset is
'Offset of its payload there; under the queue''s own partition_id it is the job_id.';
comment on column pgq.job.expires_at is
'The time from which it is never claimed; null: never expires.';
comment on column pgq.job.segment is 'The segment of its payload.';
comment on column pgq.job.priority is '0 (first) to 9 (last).';
comment on column pgq.job.attempt is 'Number of attempts, including the current one.';
comment on column pgq.job.last_attempt is
'Whether this attempt was the last one allowed when it was claimed; null: prefetched and not known
to have begun, and not yet counted by attempt.';
comment on column pgq.job.visible_at is
'The time from which it may be claimed; of a leased job, the end of its lease; infinity: blocked by
another job of its key.';
comment on column pgq.job.lease_token is
'Token of the claim that leased it; null: never claimed, or given back.';
comment on column pgq.job.label is 'Label that a claim may filter by; null: none.';
comment on column pgq.job.last_error is
'Error given to the last nack; after a redrive, the error of the dead letter.';
comment on column pgq.job.unique_key is 'Its unique key, see unique_job; null: none.';
comment on column pgq.job.max_attempts is
'Attempts before it becomes a dead letter; null: the setting of its queue.';
comment on column pgq.job.ordered_key is
'Its key in an ordered queue. With max_leased_per_key: the key whose slot it holds, or of a blocked
job its sort key, see _blocked_position. Null: none of these.';
comment on column pgq.job.due_at is
'Of a blocked job only: the time from which it may be claimed once it is the first of its
ordered_key; if it is blocked, the time since which it has been due. Null: not blocked.';

-- The only index is the order of claims.
create table pgq.job_extent (
    queue_id bigint not null,
    visible_at timestamptz not null,
    extent_id bigint not null,
    partition_id bigint not null,
    first_offset bigint not null,
    expires_at timestamptz,
    segment integer not null,
    jobs integer not null,
    ordinals smallint[],
    primary key (queue_id, visible_at, extent_id)
)
with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

comment on table pgq.job_extent is
'Job batches: one row for many jobs that were made together from consecutive messages. They get rows
of their own when a claim needs them.';
comment on column pgq.job_extent.visible_at is 'The time from which they may be claimed.';
comment on column pgq.job_extent.extent_id is
'Batch id, from the sequence job_id; of two with one visible_at the lower one comes first.';
comment on column pgq.job_extent.partition_id is
'The partition_id under which their payloads are stored.';
comment on column pgq.job_extent.first_offset is 'Offset of the first payload.';
comment on column pgq.job_extent.expires_at is
'The time from which none is claimed; null: never expires.';
comment on column pgq.job_extent.segment is 'The segment of their payloads.';
comment on column pgq.job_extent.jobs is 'Number of jobs.';
comment on column pgq.job_extent.ordinals is
'Offsets of their payloads, relative to first_offset; null: without gaps.';

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
    max_attempts integer,
    ordered_key text collate "C",
    stops_key boolean not null default false
);

create index dead_job_queue on pgq.dead_job (queue_id, died_at, job_id);

comment on table pgq.dead_job is
'Dead letters: jobs given up after their last attempt, kept until redriven, purged or too old.';
comment on column pgq.dead_job.partition_id is 'Where its payload is stored, see job.';
comment on column pgq.dead_job.log_offset is 'Where its payload is stored, see job.';
comment on column pgq.dead_job.attempt is 'Number of attempts.';
comment on column pgq.dead_job.died_at is 'When it was moved here.';
comment on column pgq.dead_job.last_error is
'Error of the last nack or reject_job; if the lease of the last attempt ran out, a line says so.';
comment on column pgq.dead_job.unique_key is
'The unique key it had as a job; a redrive takes it again.';
comment on column pgq.dead_job.max_attempts is 'See job.';
comment on column pgq.dead_job.ordered_key is 'See job.';
comment on column pgq.dead_job.stops_key is
'Whether the other jobs of its ordered_key are blocked until it is redriven or removed.';

create table pgq.key_wakeup (
    queue_id bigint not null,
    look_at timestamptz not null,
    ordered_key text collate "C" not null,
    after_id bigint not null,
    tries integer not null,
    primary key (queue_id, look_at, ordered_key, after_id)
);

comment on table pgq.key_wakeup is
'Wake-up records: keys to look at again. Of ordered queues: the next job could not be unblocked yet,
as an enqueue of the key was open. Of queues with max_leased_per_key: a slot may be free.';
comment on column pgq.key_wakeup.look_at is 'The time from which a claim looks at the key.';
comment on column pgq.key_wakeup.ordered_key is 'The key.';
comment on column pgq.key_wakeup.after_id is
'The job that has ended; the next one has a higher id. With max_leased_per_key also 0: the periodic
look at the key, and -1: one more look.';
comment on column pgq.key_wakeup.tries is 'Number of looks without success.';

-- A transaction that ends a job, or frees its key, holds the job's row: so it is the only one to
-- lock the row here, and only a transaction that wants the key waits for it.
create table pgq.unique_job (
    queue_id bigint not null,
    unique_key text collate "C" not null,
    job_id bigint not null,
    is_newest boolean not null,
    primary key (queue_id, unique_key)
);

create index unique_job_id on pgq.unique_job (job_id);

comment on table pgq.unique_job is
'Holders of unique keys: the job that keeps other jobs of this key out of its queue.';
comment on column pgq.unique_job.unique_key is 'The key.';
comment on column pgq.unique_job.job_id is
'The holder; a dead letter only if unique_until is removed.';
comment on column pgq.unique_job.is_newest is
'Whether an enqueue gave the holder the key or its content; false: it came back to the queue, and
other jobs of the key that workers have may be newer.';

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
'Finished, cancelled and expired jobs; a leaf is truncated together with the segment of the
payloads.';
comment on column pgq.job_archive.ended_at is 'When it was finished or cancelled, or expired.';
comment on column pgq.job_archive.outcome is
'acked, expired, cancelled, or the outcome given to archive_job.';
comment on column pgq.job_archive.result is 'The result given to archive_job; null: none.';
comment on column pgq.job_archive.last_error is 'Error of the last failed attempt.';
comment on column pgq.job_archive.partition_id is
'The partition_id under which its payload is stored; null: the queue''s own.';
comment on column pgq.job_archive.log_offset is 'Offset of its payload; null: the job_id.';

create table pgq.room_count (
    queue_id bigint not null,
    counted_at timestamptz not null,
    took interval not null,
    max_unfinished integer not null,
    last_id bigint not null
);

create index room_count_counted on pgq.room_count (queue_id, counted_at);

-- It has no key, so that no enqueue waits for another one that counts.
alter table pgq.room_count replica identity full;

comment on table pgq.room_count is
'How many more jobs fit into queues with max_unfinished, for enqueues of all sessions to use for a
while, see _check_room.';
comment on column pgq.room_count.counted_at is
'When the jobs were counted, by the clock of the server.';
comment on column pgq.room_count.took is 'How long the count took.';
comment on column pgq.room_count.max_unfinished is 'The limit at that time.';
comment on column pgq.room_count.last_id is 'Until which id the count is used.';

create table pgq.queue_floor_lock (
    queue_id bigint primary key references pgq.queue (queue_id) on delete cascade,
    swept_label text collate "C"
);

comment on table pgq.queue_floor_lock is
'Lock rows of the floors: one per queue, locked by the transaction that changes its floors.';
comment on column pgq.queue_floor_lock.swept_label is
'The label whose floors cleanup checked last; null: start at the first.';

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
    wakeup_floor timestamptz,
    primary key (queue_id, label, seq)
);

comment on table pgq.queue_floor is
'Floors of claims, as a journal: low-water marks of (visible_at, job_id) per priority, below which a
queue has no claimable job, so that claims need not scan the dead rows there. The row with the
highest seq counts.';
comment on column pgq.queue_floor.label is
'Empty: the common floors, for all claims. = and a label: for claims by that label, stored only
where they may be above the common ones.';
comment on column pgq.queue_floor.seq is 'Rises by one with every change.';
comment on column pgq.queue_floor.epoch is
'Rises whenever the common floors start again or go down, after the clock was set back. Floors of a
label count only in the epoch in which they were written.';
comment on column pgq.queue_floor.floor_times is
'The visible_at of the floor of each priority, 0 to 9.';
comment on column pgq.queue_floor.floor_ids is
'The job_id of the floor, among jobs of that visible_at.';
comment on column pgq.queue_floor.recorded_at is 'When this row was written.';
comment on column pgq.queue_floor.safe_at is
'No transaction writes a visible_at below this any more: floors may rise up to here.';
comment on column pgq.queue_floor.candidate_at is 'The next safe_at.';
comment on column pgq.queue_floor.candidate_xid is
'It becomes safe_at once all transactions below this one have ended, or have read nothing yet.';
comment on column pgq.queue_floor.wakeup_floor is
'No key_wakeup has a lower look_at; null: not kept for this queue.';
