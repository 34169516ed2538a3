create function pgq._begun_job(job pgq.job)
returns pgq.job
language plpgsql stable parallel safe
as $$
begin
    job.attempt := job.attempt + 1;
    job.last_attempt := coalesce(
        job.attempt >= coalesce(
            job.max_attempts,
            (select q.max_attempts from pgq.queue as q where q.queue_id = job.queue_id)
        ),
        false
    );
    return job;
end
$$;

comment on function pgq._begun_job(pgq.job) is
'Returns the row of a prefetched job as it is once the job has begun: the attempt counts.';
