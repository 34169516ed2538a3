create function pgq._cron_tick(times pgq._cron_times, time_zone text, after timestamptz)
returns timestamptz
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    local_after timestamp := _cron_tick.after at time zone _cron_tick.time_zone;
    -- The same local time, or the second one where it comes twice.
    again timestamptz := local_after at time zone _cron_tick.time_zone;
    local_at timestamp;
    moment timestamptz;
    repeated timestamptz;
begin
    -- Where an hour is about to come a second time, local times that were before come after.
    if _cron_tick.times.real_time and again > _cron_tick.after then
        local_at := local_after - (again - _cron_tick.after);
        loop
            local_at := pgq._next_minute(_cron_tick.times, local_at);
            exit when local_at > local_after;
            repeated := pgq._moment_of(local_at, _cron_tick.time_zone, true, _cron_tick.after);
            exit when repeated > _cron_tick.after;
            repeated := null;
        end loop;
    end if;

    local_at := local_after;
    loop
        local_at := pgq._next_minute(_cron_tick.times, local_at);
        moment := pgq._moment_of(
            local_at, _cron_tick.time_zone, _cron_tick.times.real_time, _cron_tick.after
        );
        exit when moment > _cron_tick.after;
    end loop;
    return least(moment, repeated);
end
$$;

comment on function pgq._cron_tick(pgq._cron_times, text, timestamptz) is
'The first moment after another one that a cron expression names in a time zone.';
