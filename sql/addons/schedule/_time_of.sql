create function pgq._time_of(
    local_at timestamp, time_zone text, real_time boolean, after timestamptz
)
returns timestamptz
language plpgsql immutable parallel safe
as $$
declare
    -- AT TIME ZONE gives the second occurrence of a local time that comes twice. A skipped one it
    -- moves past the gap, by its distance from the beginning of the gap.
    tick_at timestamptz := local_at at time zone time_zone;
    day_before timestamptz := tick_at - interval '24 hours';
    earlier timestamptz;
begin
    if (tick_at at time zone time_zone) <> local_at then
        if real_time then
            return null;
        end if;
        return (
            select min(g.tick_at)
            from generate_series(
                tick_at - ((tick_at at time zone time_zone) - local_at), tick_at,
                interval '1 minute'
            ) as g (tick_at)
            where (g.tick_at at time zone time_zone) > local_at
        );
    end if;

    -- With the UTC offset of the day before: the first occurrence, if the local time comes twice.
    earlier := (
        local_at
        - ((day_before at time zone time_zone) - (day_before at time zone 'UTC'))
    ) at time zone 'UTC';
    if earlier < tick_at
        and (earlier at time zone time_zone) = local_at
        and (earlier > after or not real_time)
    then
        return earlier;
    end if;
    return tick_at;
end
$$;

comment on function pgq._time_of(timestamp, text, boolean, timestamptz) is
'Converts a local time to a moment, in a time zone with daylight saving time.
A skipped local time gives the first moment after the gap, but null in real time. One that comes
twice gives its first occurrence, but in real time the first one after the argument after.';
