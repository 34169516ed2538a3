create function pgq._next_tick(
    times pgq._cron_times, every interval, time_zone text, starts_at timestamptz, after timestamptz
)
returns timestamptz
language plpgsql immutable parallel safe
as $$
declare
    step numeric;
    passed numeric;
begin
    if every is null then
        return pgq._cron_tick(
            times, time_zone, greatest(after, starts_at - interval '1 microsecond')
        );
    end if;

    -- Count in microseconds: a day has 24 hours, also when daylight saving time changes. Intervals
    -- are multiplied as doubles, so multiply whole days and the rest separately: these are exact,
    -- centuries of microseconds are not.
    step := extract(epoch from every) * 1000000;
    passed := step * greatest(
        0, 1 + floor((extract(epoch from after) - extract(epoch from starts_at)) * 1000000 / step)
    );
    return starts_at
        + interval '24 hours' * div(passed, 86400000000)::double precision
        + interval '1 microsecond' * mod(passed, 86400000000)::double precision;
end
$$;

comment on function pgq._next_tick(pgq._cron_times, interval, text, timestamptz, timestamptz) is
'The first tick of a schedule after a moment.';
