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
    restricted boolean
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
comment on column pgq.queue_info.backoff_max is
'The longest delay before a retry, without the jitter.';
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
comment on column pgq.queue_info.max_leased_per_key is
'The most jobs of one key that are leased at one time; null: no limit.';
comment on column pgq.queue_info.restricted is
'Whether only roles with a grant may use it; see grant_access.';

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
comment on column pgq.job_info.last_error is
'The error of the last failed attempt, or of reject_job; null: none.';
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
comment on column pgq.dead_letter.queue is 'The queue.';
comment on column pgq.dead_letter.job_id is 'The id of the job.';
comment on column pgq.dead_letter.attempt is 'How many attempts it had.';
comment on column pgq.dead_letter.last_error is
'What the last nack or reject_job said; if the lease of the last attempt ran out, that in a line of
its own.';
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

create type pgq._ended_job as (
    job_id bigint,
    queue_id bigint,
    unique_key text collate "C",
    ordered_key text collate "C"
);

comment on type pgq._ended_job is 'A job that has ended, and what it lets go of.';
comment on column pgq._ended_job.job_id is 'The job.';
comment on column pgq._ended_job.queue_id is 'Its queue.';
comment on column pgq._ended_job.unique_key is 'The key that it frees; null: none.';
comment on column pgq._ended_job.ordered_key is
'The key whose next job may come up; null: none, or the job waited itself.';

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

comment on type pgq._met_job is
'A job that a claim of a queue with max_leased_per_key has met and locked; see pgq.job.';
comment on column pgq._met_job.place is 'Its place in pgq.job.';

create type pgq._claim_plan as (
    queue_id bigint,
    wanted integer,
    lease interval,
    max_attempts integer,
    is_limited boolean,
    max_leased_per_key integer,
    is_ordered boolean,
    is_subscribed boolean,
    moment timestamptz,
    floor_times timestamptz array,
    floor_ids bigint array,
    common_times timestamptz array,
    common_ids bigint array,
    recorded_at timestamptz,
    label_recorded_at timestamptz,
    epoch bigint
);

comment on type pgq._claim_plan is
'How many jobs a claim wants, what its queue says, and from where on, by priority, it looks: the
floors of its label, or the common ones.';

create type pgq._admitted_job as (
    job_id bigint,
    enqueued_at timestamptz,
    visible_at timestamptz,
    expires_at timestamptz,
    ordered_key text collate "C",
    due_at timestamptz,
    is_duplicate boolean
);

comment on type pgq._admitted_job is
'What decides when a new job may be claimed, and by which key.';

create type pgq._chosen_jobs as (
    places tid array,
    leaves integer array,
    unique_ids bigint array,
    job_ids bigint array,
    stamps jsonb,
    raising boolean
);

comment on type pgq._chosen_jobs is 'The jobs that a claim takes.';
comment on column pgq._chosen_jobs.places is 'Their places in pgq.job.';
comment on column pgq._chosen_jobs.leaves is 'The segments of their payloads.';
comment on column pgq._chosen_jobs.unique_ids is 'Which of them have a unique key.';
comment on column pgq._chosen_jobs.job_ids is 'Their ids.';
comment on column pgq._chosen_jobs.stamps is 'Of those that have a key, by id: the key.';
comment on column pgq._chosen_jobs.raising is 'Whether it is time to raise the floors.';
