create function pgq._moment_of(
    local_at timestamp, time_zone text, real_time boolean, after timestamptz
)
returns timestamptz
language plpgsql immutable parallel safe
as $$
declare
    -- Of a time that comes twice the second one; of one that is skipped, as much after the gap as
    -- the time lies behind its beginning.
    moment timestamptz := local_at at time zone time_zone;
    day_before timestamptz := moment - interval '24 hours';
    earlier timestamptz;
begin
    if (moment at time zone time_zone) <> local_at then
        if real_time then
            return null;
        end if;
        return (
            select min(g.moment)
            from generate_series(
                moment - ((moment at time zone _moment_of.time_zone) - _moment_of.local_at), moment,
                interval '1 minute'
            ) as g (moment)
            where (g.moment at time zone _moment_of.time_zone) > _moment_of.local_at
        );
    end if;

    -- The same local time by the clock of the day before.
    earlier := (
        local_at
        - ((day_before at time zone time_zone) - (day_before at time zone 'UTC'))
    ) at time zone 'UTC';
    if earlier < moment
        and (earlier at time zone time_zone) = local_at
        and (earlier > after or not real_time)
    then
        return earlier;
    end if;
    return moment;
end
$$;

comment on function pgq._moment_of(timestamp, text, boolean, timestamptz) is
'When a local time comes in a time zone whose clocks are put forward and back.
One that is skipped comes at the first moment after the gap, but in real time never (null). One that
comes twice is the first of the two, but in real time the first that is not over.';
