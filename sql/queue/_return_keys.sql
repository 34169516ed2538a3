create function pgq._return_keys(job_ids bigint[])
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    wish record;
begin
    for wish in
        select j.job_id, j.queue_id, j.unique_key
        from pgq.job as j
        where j.job_id = any(job_ids)
        order by j.unique_key, j.job_id
    loop
        continue when pgq._take_key(
            wish.queue_id, wish.unique_key, wish.job_id, false
        ) = wish.job_id;

        continue when pgq._end_replaced(array[wish.job_id], 0, false);

        -- The caller has inserted these rows: no other transaction sees them yet.
        update pgq.job as j set unique_key = null where j.job_id = wish.job_id;
    end loop;
end
$$;

comment on function pgq._return_keys(bigint[]) is
'Takes back the unique keys of jobs that are given back, after a claim had freed them. A job whose
key another job holds by now goes on without one, or ends if the queue replaces jobs and that job is
newer. The caller has written the rows of the jobs.';
