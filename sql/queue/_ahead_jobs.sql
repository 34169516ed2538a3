create function pgq._ahead_jobs(now_at timestamptz, longest_lease interval, max_looks bigint)
returns table (
    queue_id bigint,
    job_id bigint,
    leased boolean,
    visible_at timestamptz,
    due_at timestamptz
)
language plpgsql stable parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
    -- The format of the header scheduled_at, which run_schedules writes.
    now_text text := to_char(now_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS');
begin
    -- A job was written by a clock ahead if its published_at is in the future and it is due as soon
    -- as its queue allows. A job with a delay of its own is left alone: it may have a run_at, which
    -- is right whatever the clock was. The last condition keeps a corrected job from being
    -- corrected again. A schedule tick still to come keeps its time: its job is due then. The start
    -- of a lease is not stored, so only its end is compared.
    return query
    select
        j.queue_id, j.job_id, a.leased,
        case
            when a.leased then now_at + q.lease
            when j.due_at is null then j.visible_at - (m.published_at - now_at)
            else j.visible_at
        end,
        j.due_at - (m.published_at - now_at)
    from pgq.queue as q
    cross join generate_series(0, 9) as p (priority)
    cross join lateral (
        select k.*
        from pgq.job as k
        where k.queue_id = q.queue_id
            and k.priority = p.priority
            and k.visible_at > now_at + interval '5 seconds'
        order by k.visible_at
        limit max_looks
    ) as j
    cross join lateral (
        select j.lease_token is not null as leased, coalesce(j.due_at, j.visible_at) as due_at
    ) as a
    left join lateral (
        select n.published_at
        from pgq.message as n
        where not a.leased
            and n.segment = j.segment
            and n.partition_id = j.partition_id
            and n.log_offset = j.log_offset
            and (n.headers ->> 'scheduled_at' collate "C" > now_text) is not true
    ) as m on true
    where case
        when a.leased then j.visible_at > now_at + greatest(longest_lease, q.lease)
        else m.published_at > now_at + interval '5 seconds'
            and a.due_at between m.published_at
            + case when j.attempt > 0 then interval '0' else q.delay end
            and m.published_at + interval '5 seconds'
            + case when j.attempt > 0 then q.backoff_max else q.delay end
            and a.due_at < m.published_at + (m.published_at - now_at)
    end;
end
$$;

comment on function pgq._ahead_jobs(timestamptz, interval, bigint) is
'Lists jobs that were enqueued, or given back by a nack, while the clock was ahead, and jobs leased
for longer than longest_lease from now, with the times they should have.
max_looks: how many jobs of each queue and priority are examined; null: all.';
