create function pgq._has_jobs(segment integer, queue_id bigint)
returns boolean
language plpgsql
volatile
parallel unsafe
set enable_seqscan = on
as $$
#variable_conflict use_column
begin
    -- Both in one statement: a job that is buried or redriven meanwhile is seen on one of the two
    -- sides.
    return exists (
        select
        from pgq.job as j
        where j.segment = _has_jobs.segment
            and (_has_jobs.queue_id is null or j.queue_id = _has_jobs.queue_id)
    ) or exists (
        select
        from pgq.dead_job as d
        where d.segment = _has_jobs.segment
            and (_has_jobs.queue_id is null or d.queue_id = _has_jobs.queue_id)
    );
end
$$;

comment on function pgq._has_jobs(integer, bigint) is
'Whether payloads of unfinished or dead jobs, of one queue or of all, stand in a segment.';
