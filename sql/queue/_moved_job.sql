create function pgq._moved_job(
    job pgq.job, visible_at timestamptz, lease_token uuid, ordered_key text, due_at timestamptz
)
returns setof pgq.job
language sql stable parallel safe rows 1
as $$
select
    j.job_id, j.queue_id, j.partition_id, j.log_offset, j.expires_at, _moved_job.visible_at,
    j.segment, j.attempt, j.priority, j.last_attempt, _moved_job.lease_token, j.label, j.last_error,
    j.unique_key, j.max_attempts, _moved_job.ordered_key, _moved_job.due_at
from (select (_moved_job.job).*) as j
$$;

comment on function pgq._moved_job(pgq.job, timestamptz, uuid, text, timestamptz) is
'Returns a job with another position in the order of claims, to be inserted after its row was
deleted; see pgq.job for why it is not updated.';
