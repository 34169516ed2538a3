create function pgq._expand_segment(
    segment integer, queue_id bigint, partition_id bigint, max_jobs integer
)
returns void
language plpgsql volatile parallel unsafe
set enable_seqscan = on
as $$
declare
    extent pgq.job_extent;
    wanted bigint := max_jobs;
begin
    for extent in
        select r.*
        from pgq.job_extent as r
        where r.segment = _expand_segment.segment
            and r.queue_id = coalesce(_expand_segment.queue_id, r.queue_id)
            and r.partition_id = coalesce(_expand_segment.partition_id, r.partition_id)
        limit max_jobs
        for update skip locked
    loop
        perform pgq._expand_extent(extent);
        wanted := wanted - extent.jobs;
        exit when wanted <= 0;
    end loop;
end
$$;

comment on function pgq._expand_segment(integer, bigint, bigint, integer) is
'Expands job extents whose payloads are in a segment into jobs, and stops after max_jobs.
Null queue_id: all queues; null partition_id: any partition.';
