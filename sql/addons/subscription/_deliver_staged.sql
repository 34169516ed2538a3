create function pgq._deliver_staged(
    queue_id bigint, now_at timestamptz, most_attempts integer, floor_times timestamptz[],
    floor_ids bigint[]
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    topics text[] := array(
        select t.topic
        from pgq.subscription as s
        inner join pgq.topic as t on t.topic_id = s.topic_id
        where s.queue_id = _deliver_staged.queue_id and t.deferred
        order by t.topic
    );
    name text;
begin
    if topics = '{}' then
        return;
    end if;

    -- Assign offsets only when no job is due: meanwhile more is staged, and offsets for many
    -- messages cost little more than for one. SKIP LOCKED: jobs that another claim has locked do
    -- not count.
    perform
    from pgq.job_extent as r
    where r.queue_id = _deliver_staged.queue_id
        and r.visible_at >= (floor_times)[1]
        and r.visible_at <= now_at
        and (r.expires_at is null or r.expires_at > now_at)
    order by r.visible_at, r.extent_id
    limit 1
    for update skip locked;

    if found then
        return;
    end if;

    perform
    from unnest(floor_times, floor_ids) with ordinality as f (floor_time, floor_id, priority)
    cross join lateral (
        select
        from pgq.job as k
        where k.queue_id = _deliver_staged.queue_id
            and k.priority = f.priority - 1
            and (k.visible_at, k.job_id) >= (f.floor_time, f.floor_id)
            and k.visible_at <= now_at
            and (k.expires_at is null or k.expires_at > now_at)
            and k.attempt < coalesce(k.max_attempts, most_attempts)
        order by k.visible_at, k.job_id
        limit 1
        for update skip locked
    ) as j
    limit 1;

    if found then
        return;
    end if;

    foreach name in array topics loop
        perform pgq._assign_waiting(name, null);
    end loop;
end
$$;

comment on function pgq._deliver_staged(bigint, timestamptz, integer, timestamptz[], bigint[]) is
'Assigns offsets to staged messages of the deferred topics that a queue is subscribed to, which
makes its jobs, unless jobs are due already. Called with values that the claim has read; without
floors it does not look for due jobs. It does not wait for another transaction that assigns
offsets, but may wait for an ordered key of a queue that gets a job (see _deliver).';
