create function pgq._next_minute(times pgq._cron_times, after timestamp)
returns timestamp
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    day date := _next_minute.after::date;
    hour integer := date_part('hour', _next_minute.after);
    minute integer := date_part('minute', _next_minute.after);
    later integer;
    on_day boolean;
    on_weekday boolean;
begin
    loop
        if not date_part('month', day) = any(_next_minute.times.months) then
            day := date_trunc('month', day::timestamp) + interval '1 month';
            hour := null;
            continue;
        end if;

        on_day := date_part('day', day) = any(_next_minute.times.days)
            or (0 = any(_next_minute.times.days) and date_part('day', day + 1) = 1);
        on_weekday := date_part('dow', day) = any(_next_minute.times.weekdays)
            or (
                date_part('dow', day) + 7 = any(_next_minute.times.weekdays)
                and date_part('month', day + 7) <> date_part('month', day)
            );
        if (on_day and on_weekday)
            or (_next_minute.times.either_day and (on_day or on_weekday))
        then
            -- A day that has only just begun has all its times before it; of the first one, look
            -- for a later minute of this hour, then for a later hour.
            if hour is null then
                return day
                    + make_time(_next_minute.times.hours[1], _next_minute.times.minutes[1], 0);
            end if;
            if hour = any(_next_minute.times.hours) then
                later := _next_minute.times.minutes[
                    width_bucket(minute, _next_minute.times.minutes) + 1
                ];
                if later is not null then
                    return day + make_time(hour, later, 0);
                end if;
            end if;
            later := _next_minute.times.hours[width_bucket(hour, _next_minute.times.hours) + 1];
            if later is not null then
                return day + make_time(later, _next_minute.times.minutes[1], 0);
            end if;
        end if;
        day := day + 1;
        hour := null;
    end loop;
end
$$;

comment on function pgq._next_minute(pgq._cron_times, timestamp) is
'The first local time after another one that a cron expression names.
A date that falls on a certain weekday comes after 40 years at most: February 29, beside a year like
2100. So the search is over after some hundred months and days.';
