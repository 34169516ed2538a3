create function pgq._ahead_schedules(now_at timestamptz)
returns table (
    schedule text,
    starts_at timestamptz,
    next_at timestamptz,
    due_at timestamptz
)
language plpgsql stable parallel unsafe
as $$
begin
    -- missed = all: every tick up to last_at was written, so next_at stays. Otherwise the clock
    -- that was ahead skipped ticks, and of these only last_at was written.
    return query
    select s.schedule, b.starts_at, n.next_at, least(s.due_at, n.next_at)
    from pgq.schedule as s
    cross join lateral (
        select
            case when s.cron is not null then pgq._cron_times(s.cron) end as times,
            -- starts_at was not given: it is the time of creation, maybe by the clock that was
            -- ahead.
            case
                when s.starts_at = date_trunc('second', s.created_at)
                    then least(s.starts_at, date_trunc('second', now_at))
                else s.starts_at
            end as starts_at
    ) as b
    cross join lateral (
        select pgq._next_tick(b.times, s.every, s.time_zone, b.starts_at, now_at) as tick_at
    ) as f
    cross join lateral (
        select
            case
                when s.missed = 'all' and s.last_at is not null then s.next_at
                when f.tick_at = s.last_at
                    then pgq._next_tick(b.times, s.every, s.time_zone, b.starts_at, f.tick_at)
                else f.tick_at
            end as tick_at
    ) as g
    cross join lateral (select least(s.next_at, g.tick_at) as next_at) as n
    where greatest(s.next_at, s.due_at) > now_at + interval '5 seconds'
        and (
            n.next_at < s.next_at - interval '5 seconds'
            or s.due_at
            > greatest(n.next_at, now_at + interval '1 minute')
            + interval '5 seconds'
        );
end
$$;

comment on function pgq._ahead_schedules(timestamptz) is
'Schedules that a clock that was ahead has moved on, with the times they should have.';
