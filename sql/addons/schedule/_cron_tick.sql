create function pgq._cron_tick(times pgq._cron_times, time_zone text, after timestamptz)
returns timestamptz
language plpgsql immutable parallel safe
as $$
declare
    local_after timestamp := after at time zone time_zone;
    -- The same local time, or its second occurrence if it comes twice.
    again timestamptz := local_after at time zone time_zone;
    local_at timestamp;
    tick_at timestamptz;
    repeated timestamptz;
begin
    -- after lies in the first occurrence of an hour that comes twice: local times before it will
    -- come again.
    if times.real_time and again > after then
        local_at := local_after - (again - after);
        loop
            local_at := pgq._next_minute(times, local_at);
            exit when local_at > local_after;
            repeated := pgq._time_of(local_at, time_zone, true, after);
            exit when repeated > after;
            repeated := null;
        end loop;
    end if;

    local_at := local_after;
    loop
        local_at := pgq._next_minute(times, local_at);
        tick_at := pgq._time_of(local_at, time_zone, times.real_time, after);
        exit when tick_at > after;
    end loop;
    return least(tick_at, repeated);
end
$$;

comment on function pgq._cron_tick(pgq._cron_times, text, timestamptz) is
'The first moment after another one that a cron expression matches in a time zone.';
