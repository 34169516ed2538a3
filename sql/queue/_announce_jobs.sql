create function pgq._announce_jobs(job_ids bigint[])
returns void
language sql volatile parallel unsafe
as $$
select pg_notify('pgq_queue', case when q.restricted then '' else q.queue end)
from pgq.queue as q
where q.notify and q.queue_id in (select j.queue_id from pgq.job as j where j.job_id = any(job_ids))
$$;

comment on function pgq._announce_jobs(bigint[]) is
'Notifies workers that these jobs are due, or due earlier than before, if their queue has notify.';
