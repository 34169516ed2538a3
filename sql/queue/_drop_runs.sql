create function pgq._drop_runs(queue_id bigint)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    removed bigint;
begin
    with doomed as materialized (
        select r.visible_at, r.run_id
        from pgq.job_run as r
        where r.queue_id = _drop_runs.queue_id
        order by r.visible_at, r.run_id
        for update
    ),

    purged as (
        delete from pgq.job_run as r
        using doomed as d
        where r.queue_id = _drop_runs.queue_id
            and r.visible_at = d.visible_at and r.run_id = d.run_id
        returning r.jobs
    )

    select coalesce(sum(p.jobs), 0)
    into removed
    from purged as p;

    return removed;
end
$$;

comment on function pgq._drop_runs(bigint) is
'Deletes the job batches (job_run) of a queue, and returns how many jobs they stood for. Waits for
a claim that makes jobs of a batch.';
