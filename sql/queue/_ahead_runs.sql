create function pgq._ahead_runs(moment timestamptz)
returns table (queue_id bigint, run_id bigint, visible_at timestamptz, jobs integer)
language plpgsql stable parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    return query
    select r.queue_id, r.run_id, r.visible_at - (m.published_at - moment), r.jobs
    from pgq.queue as q
    inner join pgq.job_run as r on r.queue_id = q.queue_id
    inner join pgq.message as m
        on m.segment = r.segment
            and m.partition_id = r.partition_id
            and m.log_offset = r.first_offset + coalesce(r.places[1], 0)
    where r.visible_at > moment + interval '5 seconds'
        and m.published_at > moment + interval '5 seconds'
        and r.visible_at - m.published_at between q.delay and q.delay + interval '5 seconds'
        and r.visible_at - m.published_at < m.published_at - moment;
end
$$;

comment on function pgq._ahead_runs(timestamptz) is
'Lists job batches (job_run) written while the clock was ahead, with the times they should have.';
