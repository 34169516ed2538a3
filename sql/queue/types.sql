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
    ordered boolean,
    after_dead_letter text,
    max_leased integer,
    rate_limit integer,
    rate_interval interval,
    rate_burst integer,
    max_unfinished integer,
    max_leased_per_key integer,
    restricted boolean,
    max_message_bytes integer,
    keep_results boolean,
    on_duplicate text,
    debounce_max interval
);

comment on type pgq.queue_info is 'A queue and its settings.';
comment on column pgq.queue_info.queue is 'Queue name.';
comment on column pgq.queue_info.lease is
'How long a claim leases a job, unless the claim gives a time of its own.';
comment on column pgq.queue_info.max_attempts is
'Attempts before a job becomes a dead letter; null: no limit.';
comment on column pgq.queue_info.delay is 'Time from enqueue to the first attempt.';
comment on column pgq.queue_info.job_ttl is
'Time from enqueue until an unfinished job expires; null: never.';
comment on column pgq.queue_info.retention is
'How long finished jobs and dead letters are kept; null: without limit.';
comment on column pgq.queue_info.backoff is
'Delay before the first retry; doubled for each further one.';
comment on column pgq.queue_info.backoff_max is 'Longest delay before a retry, without the jitter.';
comment on column pgq.queue_info.backoff_jitter is
'Jitter: up to this share of the delay is added at random.';
comment on column pgq.queue_info.archive is
'Whether a job that ack finishes, or that expires or is cancelled, is recorded among the archived
jobs.';
comment on column pgq.queue_info.notify is 'Whether enqueue notifies the channel pgq_queue.';
comment on column pgq.queue_info.paused is
'Whether the queue is paused, so that claims return no jobs.';
comment on column pgq.queue_info.created_at is 'When it was created.';
comment on column pgq.queue_info.updated_at is 'When its settings last changed.';
comment on column pgq.queue_info.idempotency_window is
'How long an idempotency key identifies the job that it was first given with.';
comment on column pgq.queue_info.unique_until is
'How long a job keeps other jobs of its unique_key out: until it is finished, claimed or removed.';
comment on column pgq.queue_info.ordered is
'Whether the jobs of one key are handed out one at a time, in the order of their commits.';
comment on column pgq.queue_info.after_dead_letter is
'What happens to the jobs of a key when one of them becomes a dead letter: continue or stop.';
comment on column pgq.queue_info.max_leased is 'Limit of jobs leased at one time; null: no limit.';
comment on column pgq.queue_info.rate_limit is
'Limit of jobs handed out per rate_interval; null: no limit.';
comment on column pgq.queue_info.rate_interval is
'Interval of the rate_limit; null: no rate_limit.';
comment on column pgq.queue_info.rate_burst is
'Limit of jobs handed out at once after a pause; null: no rate_limit.';
comment on column pgq.queue_info.max_unfinished is
'Number of unfinished jobs at which enqueue fails; null: no limit.';
comment on column pgq.queue_info.max_leased_per_key is
'Limit of jobs of one key leased at one time; null: no limit.';
comment on column pgq.queue_info.restricted is
'Whether only roles with a grant may use it, see grant_access.';
comment on column pgq.queue_info.max_message_bytes is
'Largest content of a job, in bytes.';
comment on column pgq.queue_info.keep_results is
'Whether get_result knows its jobs after they have finished, expired or were cancelled.';
comment on column pgq.queue_info.on_duplicate is
'What a duplicate does to the waiting job that holds its unique key: keep, replace or postpone.';
comment on column pgq.queue_info.debounce_max is
'How long after its first enqueue a job is postponed; null: no limit.';

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
    body bytea,
    cut_short boolean,
    max_attempts integer
);

comment on type pgq.claimed_job is 'A job that is leased to the caller.';
comment on column pgq.claimed_job.job_id is 'Job id.';
comment on column pgq.claimed_job.lease_token is
'Token to pass to ack, nack, release_job, reject_job, archive_job and extend_lease; the same for all
jobs of a claim.';
comment on column pgq.claimed_job.attempt is 'Number of this attempt, from 1.';
comment on column pgq.claimed_job.leased_until is
'End of the lease: from then on another worker may get the job.';
comment on column pgq.claimed_job.enqueued_at is 'When it was enqueued.';
comment on column pgq.claimed_job.priority is '0 (first) to 9 (last).';
comment on column pgq.claimed_job.key is 'Key; null: none.';
comment on column pgq.claimed_job.label is 'Label; null: none.';
comment on column pgq.claimed_job.headers is 'Headers, a JSON object; null: none.';
comment on column pgq.claimed_job.payload is 'Content as JSON; null if it has a body.';
comment on column pgq.claimed_job.body is 'Content as raw bytes; null if it has a payload.';
comment on column pgq.claimed_job.cut_short is
'Whether there are more that are due and that max_jobs would allow: ask again at once.';
comment on column pgq.claimed_job.max_attempts is
'Attempts before it becomes a dead letter; null: any number.';

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
    body bytea,
    snoozes integer,
    progress jsonb,
    progress_at timestamptz
);

comment on type pgq.job_info is 'An unfinished job or a dead letter.';
comment on column pgq.job_info.job_id is 'Job id.';
comment on column pgq.job_info.queue is 'Queue name.';
comment on column pgq.job_info.state is
'ready, leased, delayed, waiting, expired or dead; see queue_stats.';
comment on column pgq.job_info.priority is '0 (first) to 9 (last).';
comment on column pgq.job_info.attempt is 'Number of attempts, including the current one.';
comment on column pgq.job_info.max_attempts is
'Attempts before it becomes a dead letter; null: no limit.';
comment on column pgq.job_info.enqueued_at is 'When it was enqueued.';
comment on column pgq.job_info.due_at is
'The time from which it may be claimed; null: it is leased, or a dead letter.';
comment on column pgq.job_info.leased_until is
'End of the lease: from then on another worker may get the job; null: not leased.';
comment on column pgq.job_info.expires_at is
'The time from which it is never claimed; null: never expires.';
comment on column pgq.job_info.died_at is 'When it became a dead letter; null: it is not one.';
comment on column pgq.job_info.label is 'Label; null: none.';
comment on column pgq.job_info.unique_key is 'Unique key; null: none.';
comment on column pgq.job_info.last_error is
'The error of the last failed attempt, or of reject_job; null: none.';
comment on column pgq.job_info.key is 'Key; null: none.';
comment on column pgq.job_info.headers is 'Headers, a JSON object; null: none.';
comment on column pgq.job_info.payload is 'Content as JSON; null if it has a body.';
comment on column pgq.job_info.body is 'Content as raw bytes; null if it has a payload.';
comment on column pgq.job_info.snoozes is 'How often release_job gave it back with a delay.';
comment on column pgq.job_info.progress is 'What set_progress was given last; null: none.';
comment on column pgq.job_info.progress_at is 'When that was given; null: never.';

create type pgq.enqueue_result as (
    job_id bigint,
    duplicate boolean
);

comment on type pgq.enqueue_result is 'A job that was enqueued by this call or an earlier one.';
comment on column pgq.enqueue_result.job_id is 'Job id.';
comment on column pgq.enqueue_result.duplicate is
'Whether nothing was added, because this job had been enqueued before.';

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

comment on type pgq.dead_letter is 'A job that was given up after its last attempt.';
comment on column pgq.dead_letter.queue is 'Queue name.';
comment on column pgq.dead_letter.job_id is 'Job id.';
comment on column pgq.dead_letter.attempt is 'Number of attempts.';
comment on column pgq.dead_letter.last_error is
'Error of the last nack or reject_job; if the lease of the last attempt ran out, a line says so.';
comment on column pgq.dead_letter.enqueued_at is 'When it was enqueued.';
comment on column pgq.dead_letter.died_at is 'When it became a dead letter.';
comment on column pgq.dead_letter.priority is '0 (first) to 9 (last).';
comment on column pgq.dead_letter.key is 'Key; null: none.';
comment on column pgq.dead_letter.label is 'Label; null: none.';
comment on column pgq.dead_letter.headers is 'Headers, a JSON object; null: none.';
comment on column pgq.dead_letter.payload is 'Content as JSON; null if it has a body.';
comment on column pgq.dead_letter.body is 'Content as raw bytes; null if it has a payload.';
comment on column pgq.dead_letter.stops_key is
'Whether the other jobs of its key are blocked until it is redriven or removed; see create_queue.';

create type pgq.archived_job as (
    queue text,
    job_id bigint,
    outcome text,
    attempt integer,
    enqueued_at timestamptz,
    ended_at timestamptz,
    result jsonb,
    last_error text,
    key text,
    label text,
    headers jsonb,
    payload jsonb,
    body bytea
);

comment on type pgq.archived_job is 'A job that was finished or cancelled or has expired.';
comment on column pgq.archived_job.queue is 'Queue name.';
comment on column pgq.archived_job.job_id is 'Job id.';
comment on column pgq.archived_job.outcome is
'acked, expired, cancelled, or the outcome given to archive_job.';
comment on column pgq.archived_job.attempt is 'Number of attempts.';
comment on column pgq.archived_job.enqueued_at is 'When it was enqueued.';
comment on column pgq.archived_job.ended_at is 'When it was finished or cancelled, or expired.';
comment on column pgq.archived_job.result is 'The result given to archive_job; null: none.';
comment on column pgq.archived_job.last_error is 'Error of the last failed attempt; null: none.';
comment on column pgq.archived_job.key is 'Key; null: none.';
comment on column pgq.archived_job.label is 'Label; null: none.';
comment on column pgq.archived_job.headers is 'Headers, a JSON object; null: none.';
comment on column pgq.archived_job.payload is 'Content as JSON; null if it had a body.';
comment on column pgq.archived_job.body is 'Content as raw bytes; null if it had a payload.';

create type pgq._ended_job as (
    job_id bigint,
    queue_id bigint,
    unique_key text collate "C",
    ordered_key text collate "C"
);

comment on type pgq._ended_job is 'A job that has ended, with the keys that it frees.';
comment on column pgq._ended_job.job_id is 'Job id.';
comment on column pgq._ended_job.queue_id is 'Id of its queue.';
comment on column pgq._ended_job.unique_key is 'The unique key that it frees; null: none.';
comment on column pgq._ended_job.ordered_key is
'The key whose next job may be unblocked; null: none, or the job was blocked itself.';

create type pgq._met_job as (
    tid tid,
    segment integer,
    partition_id bigint,
    log_offset bigint,
    job_id bigint,
    priority smallint,
    visible_at timestamptz,
    unique_key text collate "C",
    last_attempt boolean,
    was_begun boolean
);

comment on type pgq._met_job is
'A job that a claim of a queue with max_leased_per_key has found and locked; see pgq.job.';
comment on column pgq._met_job.tid is 'tid of its row in pgq.job.';
comment on column pgq._met_job.was_begun is
'Whether a worker had begun it and has lost its lease.';

create type pgq._claim_plan as (
    queue_id bigint,
    wanted integer,
    lease interval,
    max_attempts integer,
    is_limited boolean,
    max_leased_per_key integer,
    is_ordered boolean,
    is_subscribed boolean,
    now_at timestamptz,
    floor_times timestamptz array,
    floor_ids bigint array,
    common_times timestamptz array,
    common_ids bigint array,
    recorded_at timestamptz,
    label_recorded_at timestamptz,
    epoch bigint,
    max_bytes bigint,
    replaces boolean
);

comment on type pgq._claim_plan is
'Plan of a claim: the number of jobs and of bytes, settings of the queue, and the floors by priority
where its search starts (those of its label, or the common ones).';
comment on column pgq._claim_plan.replaces is
'Whether a job that comes back ends if a newer one holds its unique key.';

create type pgq._admitted_job as (
    job_id bigint,
    enqueued_at timestamptz,
    visible_at timestamptz,
    expires_at timestamptz,
    ordered_key text collate "C",
    due_at timestamptz,
    is_duplicate boolean,
    has_small_limit boolean
);

comment on type pgq._admitted_job is
'Times and ordered key of a new job, which decide when it may be claimed.';

create type pgq._chosen_jobs as (
    tids tid array,
    leaves integer array,
    unique_ids bigint array,
    job_ids bigint array,
    stamps jsonb,
    raising boolean,
    cut_short boolean,
    unbegun tid array,
    lost_ids bigint array
);

comment on type pgq._chosen_jobs is 'The jobs that a claim takes.';
comment on column pgq._chosen_jobs.tids is 'tids of their rows in pgq.job.';
comment on column pgq._chosen_jobs.leaves is 'The segments of their payloads.';
comment on column pgq._chosen_jobs.unique_ids is 'Ids of those that have a unique key.';
comment on column pgq._chosen_jobs.job_ids is 'Their ids.';
comment on column pgq._chosen_jobs.stamps is
'For each job with a key, by job id: the key to store as its ordered_key.';
comment on column pgq._chosen_jobs.cut_short is 'Whether some are left for the next claim.';
comment on column pgq._chosen_jobs.unbegun is
'tids of those whose lease ran out before the worker said that they had begun; null: none.';
comment on column pgq._chosen_jobs.lost_ids is
'Ids of those whose lease ran out after they had begun; null: none.';
comment on column pgq._chosen_jobs.raising is 'Whether it is time to raise the floors.';
