create function pgq._ahead_extents(now_at timestamptz)
returns table (queue_id bigint, extent_id bigint, visible_at timestamptz, jobs integer)
language plpgsql stable parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    return query
    select r.queue_id, r.extent_id, r.visible_at - (m.published_at - now_at), r.jobs
    from pgq.queue as q
    inner join pgq.job_extent as r on r.queue_id = q.queue_id
    inner join pgq.message as m
        on m.segment = r.segment
            and m.partition_id = r.partition_id
            and m.log_offset = r.first_offset + coalesce(r.ordinals[1], 0)
    where r.visible_at > now_at + interval '5 seconds'
        and m.published_at > now_at + interval '5 seconds'
        and r.visible_at - m.published_at between q.delay and q.delay + interval '5 seconds'
        and r.visible_at - m.published_at < m.published_at - now_at;
end
$$;

comment on function pgq._ahead_extents(timestamptz) is
'Lists job extents written while the clock was ahead, with the times they should have.';
