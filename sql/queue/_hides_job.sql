create function pgq._hides_job(job_id bigint)
returns boolean
language sql stable parallel safe
as $$
select exists (
    select
    from pgq.job as j
    inner join pgq.queue as q on q.queue_id = j.queue_id
    where j.job_id = _hides_job.job_id and q.consumers is not null and not pgq._may(q.consumers)
)
$$;

comment on function pgq._hides_job(bigint) is
'Whether an unfinished job is of a queue that the caller may not consume: it is reported as missing,
so that ids do not leak.';
