create function pgq._clean_extents(objects int8multirange, now_at timestamptz, max_jobs integer)
returns boolean
language plpgsql volatile parallel unsafe
set enable_seqscan = on
as $$
declare
    extent pgq.job_extent;
    wanted bigint := max_jobs;
    removed bigint;
begin
    -- Expiry handles single jobs only, so expand the batches first.
    for extent in
        select r.*
        from pgq.job_extent as r
        where r.expires_at <= now_at and r.queue_id <@ objects
        limit max_jobs
        for update skip locked
    loop
        perform pgq._expand_extent(extent);
        wanted := wanted - extent.jobs;
        exit when wanted <= 0;
    end loop;

    -- Batches inserted by a publish that was in progress when the queue was dropped.
    delete from pgq.job_extent as r
    where (r.queue_id, r.visible_at, r.extent_id) in (
        select s.queue_id, s.visible_at, s.extent_id
        from pgq.job_extent as s
        where s.queue_id <@ objects
            and not exists (select from pgq.queue as q where q.queue_id = s.queue_id)
        limit max_jobs
    );
    get diagnostics removed = row_count;

    return wanted <= 0 or removed = max_jobs;
end
$$;

comment on function pgq._clean_extents(int8multirange, timestamptz, integer) is
'Expands job extents that are past the job_ttl of their queue into jobs, and deletes those
of dropped queues; returns whether there is more to do. Part of cleanup.';
