create function pgq.cancel_job(job_id bigint, leased boolean default true)
returns boolean
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
begin
    if job_id is null then
        raise exception 'argument "job_id" must not be null' using errcode = '22004';
    end if;

    return pgq._cancel_job(
        job_id,
        row(null, null, null, null, null, coalesce(leased, true), null, null)::pgq._job_filter
    );
end
$$;

comment on function pgq.cancel_job(bigint, boolean) is
'Cancels an unfinished job; false when it has ended already, or no job has this id.
If a worker holds the job, its next extend_lease, ack, nack or archive_job returns false; the work
done until then is not undone. leased => false: a leased job is not cancelled, and the call returns
false; the default is true. The queue records the job among the archived jobs with the outcome
cancelled, unless its archive setting is off. False: the job is already finished or cancelled, was
removed as expired, is a dead letter, or never existed. The call may wait for the transaction of a
worker that claims or finishes the job.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again).';
