create function pgq._drop_extents(queue_id bigint)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    removed bigint;
begin
    with doomed as materialized (
        select r.visible_at, r.extent_id
        from pgq.job_extent as r
        where r.queue_id = _drop_extents.queue_id
        order by r.visible_at, r.extent_id
        for update
    ),

    purged as (
        delete from pgq.job_extent as r
        using doomed as d
        where r.queue_id = _drop_extents.queue_id
            and r.visible_at = d.visible_at and r.extent_id = d.extent_id
        returning r.jobs
    )

    select coalesce(sum(p.jobs), 0)
    into removed
    from purged as p;

    return removed;
end
$$;

comment on function pgq._drop_extents(bigint) is
'Deletes the job extents of a queue, and returns how many jobs they stood for. Waits for
a claim that makes jobs of a batch.';
