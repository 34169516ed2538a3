create function pgq._has_jobs(segment integer, queue_id bigint, partition_id bigint)
returns boolean
language plpgsql volatile parallel unsafe
set enable_seqscan = on
as $$
begin
    -- One statement, one snapshot: a job that is dead-lettered, redriven or made from a job extent
    -- meanwhile is seen in one of the three tables.
    return exists (
        select
        from pgq.job as j
        where j.segment = _has_jobs.segment
            and j.queue_id = coalesce(_has_jobs.queue_id, j.queue_id)
            and j.partition_id = coalesce(_has_jobs.partition_id, j.partition_id)
    ) or exists (
        select
        from pgq.dead_job as d
        where d.segment = _has_jobs.segment
            and d.queue_id = coalesce(_has_jobs.queue_id, d.queue_id)
            and d.partition_id = coalesce(_has_jobs.partition_id, d.partition_id)
    ) or exists (
        select
        from pgq.job_extent as r
        where r.segment = _has_jobs.segment
            and r.queue_id = coalesce(_has_jobs.queue_id, r.queue_id)
            and r.partition_id = coalesce(_has_jobs.partition_id, r.partition_id)
    );
end
$$;

comment on function pgq._has_jobs(integer, bigint, bigint) is
'Returns whether a segment holds payloads of unfinished or dead jobs: of one queue or (null) of all,
stored under one partition_id or (null) any.';
