create function pgq._last_tick(
    times pgq._cron_times, every interval, time_zone text, starts_at timestamptz,
    tick_at timestamptz, now_at timestamptz
)
returns timestamptz
language plpgsql immutable parallel safe
as $$
declare
    found_at timestamptz := tick_at;
    open_until timestamptz := now_at;
    middle timestamptz;
    later timestamptz;
begin
    -- Binary search: years of minutes take about 20 steps. Ticks are at least one second apart.
    while open_until - found_at >= interval '1 second' loop
        middle := found_at + (open_until - found_at) / 2;
        later := pgq._next_tick(times, every, time_zone, starts_at, middle);
        if later <= open_until then
            found_at := later;
        else
            open_until := middle;
        end if;
    end loop;
    return found_at;
end
$$;

comment on function pgq._last_tick(
    pgq._cron_times, interval, text, timestamptz, timestamptz, timestamptz
) is
'The last tick of a schedule that is not after now_at. tick_at: any tick that is not after it.';
