create function pgq.retry_job(job_id bigint)
returns boolean
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    moved_id bigint;
begin
    if job_id is null then
        raise exception 'argument "job_id" must not be null' using errcode = '22004';
    end if;

    -- Transaction id first, then the clock: the floor relies on it.
    if pg_current_xact_id() is null then
        return null;
    end if;

    -- A missing row may have been replaced (delete and insert) while this statement waited. Above
    -- READ COMMITTED its absence has to be proved.
    while not pgq._hides_job(job_id) loop
        with gone as (
            delete from pgq.job as j
            where j.job_id = retry_job.job_id
                and j.lease_token is null
                and j.due_at is null
                and j.visible_at > pgq._clock()
                and coalesce(j.expires_at, 'infinity') > pgq._clock()
            returning j as job
        )

        insert into pgq.job
        select m.*
        from gone as g
        cross join lateral pgq._moved_job(g.job, pgq._clock(), null, (g.job).ordered_key, null) as m
        returning pgq.job.job_id
        into moved_id;

        if moved_id is not null then
            perform pgq._announce_jobs(array[moved_id]);
            return true;
        end if;

        perform pgq._still_leased(array[job_id], null);
        exit when not exists (
            select
            from pgq.job as j
            where j.job_id = retry_job.job_id
                and j.lease_token is null
                and j.due_at is null
                and j.visible_at > pgq._clock()
                and coalesce(j.expires_at, 'infinity') > pgq._clock()
        );
    end loop;
    return false;
end
$$;

comment on function pgq.retry_job(bigint) is
'Makes a job due now that waits for its time: for a retry, its delay or its run_at.
Its attempts stay as they are. False, and nothing changed: it is due already, leased, blocked by
another job of its key, expired, a dead letter (see redrive), or has ended. The call may wait for a
transaction that has locked the job.
Errors: 22004 a required argument is null, 40001 above READ COMMITTED when another transaction was
first (try again).';
