create function pgq._announce_jobs(job_ids bigint[])
returns void
language sql volatile parallel unsafe
as $$
-- An array, not a join: a plan made on an empty table might scan all jobs of a queue.
select pg_notify('pgq_queue', case when q.restricted then '' else q.queue end)
from pgq.queue as q
where q.notify
    and q.queue_id = any(array(select j.queue_id from pgq.job as j where j.job_id = any(job_ids)))
$$;

comment on function pgq._announce_jobs(bigint[]) is
'Notifies workers that these jobs are due, or due earlier than before, if their queue has notify.';
