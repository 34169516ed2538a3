create function pgq._moved_job(
    job pgq.job, visible_at timestamptz, lease_token uuid, ordered_key text, due_at timestamptz
)
returns setof pgq.job
language sql stable parallel safe rows 1
as $$
select
    (_moved_job.job).job_id, (_moved_job.job).queue_id, (_moved_job.job).partition_id,
    (_moved_job.job).log_offset, (_moved_job.job).expires_at, _moved_job.visible_at,
    (_moved_job.job).segment, (_moved_job.job).attempt, (_moved_job.job).priority,
    (_moved_job.job).last_attempt, _moved_job.lease_token, (_moved_job.job).label,
    (_moved_job.job).last_error, (_moved_job.job).unique_key, (_moved_job.job).max_attempts,
    _moved_job.ordered_key, _moved_job.due_at
$$;

comment on function pgq._moved_job(pgq.job, timestamptz, uuid, text, timestamptz) is
'Returns a job with another position in the order of claims, to be inserted after its row was
deleted; see pgq.job for why it is not updated.';
