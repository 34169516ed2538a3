create type pgq.job_attempt as (
    attempt integer,
    outcome text,
    began_at timestamptz,
    ended_at timestamptz,
    worker text,
    error text
);

comment on type pgq.job_attempt is 'An unsuccessful attempt of a job.';
comment on column pgq.job_attempt.attempt is
'Number of the attempt; a redriven job starts again with 1.';
comment on column pgq.job_attempt.outcome is
'failed (nack), rejected (reject_job) or lost (its lease ran out).';
comment on column pgq.job_attempt.began_at is 'When it began, as the worker reported; null: not
reported.';
comment on column pgq.job_attempt.ended_at is
'When it failed; of a lost one, when a claim or cleanup noticed that its lease had run out.';
comment on column pgq.job_attempt.worker is 'The worker, by its own report; null: not reported.';
comment on column pgq.job_attempt.error is 'Its error; null: none.';

create type pgq.job_result as (
    state text,
    result jsonb,
    error text,
    ended_at timestamptz
);

comment on type pgq.job_result is 'The state and the result of a job.';
comment on column pgq.job_result.state is
'waiting, leased, blocked (by another job of its key), finished, failed (a dead letter), cancelled,
expired, replaced, or gone: not known any more, or never known.';
comment on column pgq.job_result.result is 'The result given to archive_job; null: none.';
comment on column pgq.job_result.error is 'The last error of a failed job; null: none.';
comment on column pgq.job_result.ended_at is 'When it ended; null: it has not.';
