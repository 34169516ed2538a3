create function pgq._retry_job(job_id bigint, filter pgq._job_filter)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    moved_id bigint;
begin
    -- Transaction id first, then the clock: the floor relies on it.
    if pg_current_xact_id() is null then
        return null;
    end if;

    -- A missing row may have been replaced (delete and insert) while this statement waited. Above
    -- READ COMMITTED its absence has to be proved.
    while not pgq._hides_job(job_id) loop
        with gone as (
            delete from pgq.job as j
            where j.job_id = _retry_job.job_id and pgq._is_meant('retry', j, filter)
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
            where j.job_id = _retry_job.job_id and pgq._is_meant('retry', j, filter)
        );
    end loop;
    return false;
end
$$;

comment on function pgq._retry_job(bigint, pgq._job_filter) is
'Makes a waiting job that matches the filter, of a queue that the caller may consume, due now; false
when there is none.';
