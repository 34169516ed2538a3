create function pgq._free_claimed(job_ids bigint[])
returns void
language plpgsql volatile parallel unsafe
set enable_bitmapscan = off
as $$
begin
    delete from pgq.unique_job as u
    where u.job_id = any(job_ids)
        and (select q.unique_until from pgq.queue as q where q.queue_id = u.queue_id) = 'claimed';
end
$$;

comment on function pgq._free_claimed(bigint[]) is
'Releases the unique keys of jobs that are being claimed, in queues with unique_until claimed.';
