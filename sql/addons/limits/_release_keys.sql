create function pgq._release_keys(job_ids bigint[])
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    freed pgq._ended_job[];
begin
    -- In an ordered queue a job that is given back stays the first of its key.
    select array_agg(row(j.job_id, j.queue_id, null, j.ordered_key)::pgq._ended_job)
    into freed
    from pgq.job as j
    where j.job_id = any(job_ids)
        and (select not q.ordered from pgq.queue as q where q.queue_id = j.queue_id);

    if freed is not null then
        -- The caller has inserted these rows: no other transaction sees them yet.
        update pgq.job as j
        set ordered_key = null
        where j.job_id = any(array(select f.job_id from unnest(freed) as f));

        perform pgq._free_keys(freed);
    end if;
end
$$;

comment on function pgq._release_keys(bigint[]) is
'Releases the key slots of jobs that are given back, in a queue with max_leased_per_key.';
