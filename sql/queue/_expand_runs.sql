create function pgq._expand_runs(
    queue_id bigint, max_jobs integer, moment timestamptz, most_attempts integer,
    floor_time timestamptz, floor_id bigint
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    run pgq.job_run;
    wanted bigint := max_jobs;
begin
    select r.*
    into run
    from pgq.job_run as r
    where r.queue_id = _expand_runs.queue_id
        and r.visible_at >= floor_time
        and r.visible_at <= moment
        and (r.expires_at is null or r.expires_at > moment)
    order by r.visible_at, r.run_id
    limit 1;

    if run.run_id is null then
        return;
    end if;

    -- Jobs due earlier come first. Lock them, as jobs locked by another claim must not count; the
    -- calling claim then takes them.
    select wanted - count(*)
    into wanted
    from (
        select
        from pgq.job as k
        where k.queue_id = _expand_runs.queue_id
            and k.priority = 0
            and (k.visible_at, k.job_id) >= (floor_time, floor_id)
            and k.visible_at <= run.visible_at
            and (k.expires_at is null or k.expires_at > moment)
            and k.attempt < coalesce(k.max_attempts, most_attempts)
        order by k.visible_at, k.job_id
        limit max_jobs
        for update skip locked
    ) as j;

    run.visible_at := floor_time;
    run.run_id := 0;
    while wanted > 0 loop
        -- SKIP LOCKED: the claim that has locked a batch expands it, unless it is rolled back.
        select r.*
        into run
        from pgq.job_run as r
        where r.queue_id = _expand_runs.queue_id
            and (r.visible_at, r.run_id) > (run.visible_at, run.run_id)
            and r.visible_at <= moment
            and (r.expires_at is null or r.expires_at > moment)
        order by r.visible_at, r.run_id
        limit 1
        for update skip locked;

        exit when run.run_id is null;
        perform pgq._expand_run(run);
        wanted := wanted - run.jobs;
    end loop;
end
$$;

comment on function pgq._expand_runs(bigint, integer, timestamptz, integer, timestamptz, bigint) is
'Expands as many job batches (job_run) of a queue as a claim of max_jobs needs: those due before the
jobs that it would get otherwise. The other arguments are values that the claim has read.';
