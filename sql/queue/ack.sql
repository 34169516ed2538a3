create function pgq.ack(job_id bigint, lease_token uuid)
returns boolean
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
set enable_bitmapscan = off
as $$
declare
    finished_queue_id bigint;
    leaf integer;
    finished_attempt integer;
    finished_label text;
    job_error text;
    store_id bigint;
    store_offset bigint;
    archives boolean;
    own_store_id bigint;
begin
    -- The same as _finish, for one job: plain statements take less time.
    -- paste: parts/finish.plpgsql with job_id = ack.job_id

    if found then
        select q.fast_archive, q.partition_id
        into archives, own_store_id
        from pgq.queue as q
        where q.queue_id = finished_queue_id;

        if archives then
            -- paste: parts/archive.plpgsql with job_id = job_id
        elsif archives is null then
            perform pgq._end_kept(
                job_id, finished_queue_id, leaf, finished_attempt, finished_label, job_error,
                store_id, store_offset
            );
        end if;
        return true;
    end if;

    -- Not found: the job has a unique or an ordered key, or its row was replaced (by a heartbeat of
    -- the same worker, say) while this statement waited. _finish looks again.
    perform pgq._check_lease(job_id, lease_token);
    return exists (select from pgq._finish(array[job_id], lease_token, 'acked', null, false));
end
$$;

comment on function pgq.ack(bigint, uuid) is
'Finishes a job; false when the caller does not hold it any more.
The queue records it among the archived jobs, unless its archive setting is off. False, and nothing
changed: the token is not that of the latest claim, or the job is finished already. An expired lease
remains valid as long as no other worker got the job.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again).';
