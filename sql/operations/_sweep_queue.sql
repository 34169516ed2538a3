create function pgq._sweep_queue(
    queue_id bigint,
    max_attempts integer,
    swept_at timestamptz,
    safe_at timestamptz,
    moment timestamptz
)
returns bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    exhausted bigint[];
    reached timestamptz;
    buried bigint := 0;
begin
    -- What became due since the last time, a thousand of each priority at most. The next time goes
    -- on where this one ends, but not behind where somebody may still write.
    select
        array_agg(j.job_id) filter (where j.attempt >= _sweep_queue.max_attempts),
        least(
            min(j.last_at) filter (where j.number = 1000),
            _sweep_queue.safe_at
        )
    into exhausted, reached
    from generate_series(0, 9) as p (priority)
    cross join lateral (
        select
            k.job_id,
            k.attempt,
            row_number() over (order by k.visible_at, k.job_id) as number,
            k.visible_at as last_at
        from pgq.job as k
        where k.queue_id = _sweep_queue.queue_id
            and k.priority = p.priority
            and k.visible_at >= _sweep_queue.swept_at
            and k.visible_at <= _sweep_queue.moment
        order by k.visible_at, k.job_id
        limit 1000
    ) as j;

    if exhausted is not null then
        buried := pgq._bury_exhausted(
            exhausted, _sweep_queue.max_attempts, _sweep_queue.moment
        );
    end if;

    update pgq.queue_floor_lock as l
    set swept_at = reached
    where l.queue_id = _sweep_queue.queue_id
        and reached > l.swept_at
        or l.queue_id = _sweep_queue.queue_id
        and l.swept_at > _sweep_queue.moment;

    return buried;
end
$$;

comment on function pgq._sweep_queue(bigint, integer, timestamptz, timestamptz, timestamptz) is
'Moves jobs of a queue that lost their worker on their last attempt to the dead ones, as far as their
leases ended since the last time, and returns how many.';
