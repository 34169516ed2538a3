create function pgq._jobs_of_segment(
    segment integer, queue_id bigint, partition_id bigint, max_jobs bigint, dead boolean
)
returns bigint[]
language plpgsql volatile parallel unsafe
set enable_seqscan = on
as $$
begin
    -- A sequential scan, without an index: needed only when a segment is to be emptied.
    if dead then
        return array(
            select d.job_id
            from pgq.dead_job as d
            where d.segment = _jobs_of_segment.segment
                and d.queue_id = coalesce(_jobs_of_segment.queue_id, d.queue_id)
                and d.partition_id = coalesce(_jobs_of_segment.partition_id, d.partition_id)
            limit max_jobs
        );
    end if;

    return array(
        select j.job_id
        from pgq.job as j
        where j.segment = _jobs_of_segment.segment
            and j.queue_id = coalesce(_jobs_of_segment.queue_id, j.queue_id)
            and j.partition_id = coalesce(_jobs_of_segment.partition_id, j.partition_id)
        limit max_jobs
    );
end
$$;

comment on function pgq._jobs_of_segment(integer, bigint, bigint, bigint, boolean) is
'Returns the ids of up to max_jobs unfinished (or dead) jobs whose payloads are in a segment: of one
queue or (null) of all, stored under one partition_id or (null) any.';
