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
    ordered boolean not null default false,
    after_dead_letter text collate "C" not null default 'continue',
    max_leased integer,
    rate_limit integer,
    rate_interval interval,
    rate_burst integer,
    max_unfinished integer,
    subscribed boolean not null default false,
    max_leased_per_key integer,
    plain_enqueue boolean not null generated always as (
        not notify and not ordered and max_unfinished is null
    ) stored,
    plain_claim boolean not null generated always as (
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
    made_by text collate "C"
);

comment on table pgq.queue is 'A queue of jobs and its settings.';
comment on column pgq.queue.queue is 'Its name.';
comment on column pgq.queue.made_by is
'The role that made it, which may restrict it; null: the owner of pgq.';
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
comment on column pgq.queue.backoff_max is 'The longest delay before a retry, without the jitter.';
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
comment on column pgq.queue.subscribed is
'Whether it may have rows in job_run, at which a claim then looks.';
comment on column pgq.queue.max_leased_per_key is
'The most jobs of one key that are leased at one time; null: no limit.';
comment on column pgq.queue.restricted is
'Whether only roles with a grant may use it, see grant_access.';
comment on column pgq.queue.publishers is
'The roles that may enqueue, see _settle_access; null: EXECUTE decides.';
comment on column pgq.queue.consumers is 'The roles that may claim; null: EXECUTE decides.';
comment on column pgq.queue.plain_enqueue is
'Whether no setting asks an enqueue for more than to write the job.';
comment on column pgq.queue.plain_claim is
'Whether no setting asks a claim for more than to lease what is due.';

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
    max_attempts integer,
    ordered_key text collate "C",
    due_at timestamptz
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
-- The sum is in no other index: the next of a key is looked for here, and not along all jobs.
create index job_ordered on pgq.job (queue_id, ordered_key, (job_id + 0))
where ordered_key is not null;

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
comment on column pgq.job.visible_at is
'From when on it may be claimed; infinity: it waits for another one of its key.';
comment on column pgq.job.lease_token is
'The token of the claim that has it; null: never claimed, or given back.';
comment on column pgq.job.label is 'What a claim may ask for; null: no label.';
comment on column pgq.job.last_error is
'The error that the last nack gave; after a redrive, that of the dead letter.';
comment on column pgq.job.unique_key is
'The key of which unique_job allows one job in its queue; null: none.';
comment on column pgq.job.max_attempts is
'Attempts before it is dead; null: what its queue says.';
comment on column pgq.job.ordered_key is
'Its key in an ordered queue. In one with max_leased_per_key: the key in which it has a place, or of
a parked job where it stands, see _parked_place. Null: none of these.';
comment on column pgq.job.due_at is
'From when on it may be claimed once it is the first of its ordered_key, or since when it has been
due if it is parked; null: it does not wait.';

-- Found in the order in which jobs are claimed, and by nothing else.
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
'Jobs that were given up after their last attempt, until redriven, purged or too old.';
comment on column pgq.dead_job.partition_id is 'Where its payload is stored; see job.';
comment on column pgq.dead_job.log_offset is 'Where its payload is stored; see job.';
comment on column pgq.dead_job.attempt is 'How many attempts it had.';
comment on column pgq.dead_job.died_at is 'When it was moved here.';
comment on column pgq.dead_job.last_error is
'What the last nack or reject_job said; if the lease of the last attempt ran out, that in a line of
its own.';
comment on column pgq.dead_job.unique_key is
'The key that it had as a job; it takes it again when it is redriven.';
comment on column pgq.dead_job.max_attempts is 'See job.';
comment on column pgq.dead_job.ordered_key is 'See job.';
comment on column pgq.dead_job.stops_key is
'Whether the other jobs of its ordered_key wait until it is redriven or removed.';

-- Its row is there as long as the key is taken: by the first unfinished job of the key, which
-- stands where claims look, by a dead letter that stops the key, or by a note. So it is never
-- changed, but by a redrive; who enqueues locks it.
create table pgq.ordered_key (
    queue_id bigint not null,
    ordered_key text collate "C" not null,
    from_id bigint,
    primary key (queue_id, ordered_key)
);

comment on table pgq.ordered_key is
'The keys of ordered queues that have unfinished jobs; without a row the next job of a key is the
first.';
comment on column pgq.ordered_key.ordered_key is 'The key.';
comment on column pgq.ordered_key.from_id is
'A job that was redriven, and may be the next though its number is lower; null: none.';

create table pgq.ordered_note (
    queue_id bigint not null,
    look_at timestamptz not null,
    ordered_key text collate "C" not null,
    after_id bigint not null,
    tries integer not null,
    primary key (queue_id, look_at, ordered_key, after_id)
);

comment on table pgq.ordered_note is
'Keys of ordered queues whose next job could not come up yet: an enqueue of the key was under way;
and keys of queues with max_leased_per_key that have a place now.';
comment on column pgq.ordered_note.look_at is 'From when on a claim looks for the next.';
comment on column pgq.ordered_note.ordered_key is 'The key.';
comment on column pgq.ordered_note.after_id is
'The job that has ended; the next has a higher id. In a queue with max_leased_per_key also 0: to
look at the key from time to time; -1: to look once more.';
comment on column pgq.ordered_note.tries is 'How often it was looked for in vain.';

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
'The error of the last failed attempt before it was finished.';
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
    note_floor timestamptz,
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
comment on column pgq.queue_floor.note_floor is
'No ordered_note has a lower look_at; null: it has none.';
