create function pgq._next_minute(times pgq._cron_times, after timestamp)
returns timestamp
language plpgsql immutable parallel safe
as $$
declare
    day date := after::date;
    hour integer := date_part('hour', after);
    minute integer := date_part('minute', after);
    later integer;
    on_day boolean;
    on_weekday boolean;
begin
    loop
        if not date_part('month', day) = any(times.months) then
            day := date_trunc('month', day::timestamp) + interval '1 month';
            hour := null;
            continue;
        end if;

        on_day := date_part('day', day) = any(times.days)
            or (0 = any(times.days) and date_part('day', day + 1) = 1);
        on_weekday := date_part('dow', day) = any(times.weekdays)
            or (
                date_part('dow', day) + 7 = any(times.weekdays)
                and date_part('month', day + 7) <> date_part('month', day)
            );
        if (on_day and on_weekday) or (times.either_day and (on_day or on_weekday)) then
            -- hour is null on all days but the first: take the first time of the day. On the first
            -- day, look for a later minute of this hour, then for a later hour.
            if hour is null then
                return day + make_time(times.hours[1], times.minutes[1], 0);
            end if;
            if hour = any(times.hours) then
                later := times.minutes[width_bucket(minute, times.minutes) + 1];
                if later is not null then
                    return day + make_time(hour, later, 0);
                end if;
            end if;
            later := times.hours[width_bucket(hour, times.hours) + 1];
            if later is not null then
                return day + make_time(later, times.minutes[1], 0);
            end if;
        end if;
        day := day + 1;
        hour := null;
    end loop;
end
$$;

comment on function pgq._next_minute(pgq._cron_times, timestamp) is
'The first local time after another one that a cron expression matches.
The loop ends after some hundred months and days: any date that exists falls on a given weekday
within 40 years (February 29, around a year like 2100).';
