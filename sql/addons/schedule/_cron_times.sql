create function pgq._cron_times(cron text)
returns pgq._cron_times
language plpgsql immutable parallel safe
as $$
declare
    fields text[] := regexp_split_to_array(
        btrim(
            case lower(btrim(cron) collate "C")
                when '@hourly' then '0 * * * *'
                when '@daily' then '0 0 * * *'
                when '@midnight' then '0 0 * * *'
                when '@weekly' then '0 0 * * 0'
                when '@monthly' then '0 0 1 * *'
                when '@yearly' then '0 0 1 1 *'
                when '@annually' then '0 0 1 1 *'
                else cron
            end,
            E' \t'
        ),
        E'[ \\t]+'
    );
    times pgq._cron_times;
begin
    if length(cron) > 1000 then
        perform pgq._fail_cron(format('It has %s characters, more than 1000.', length(cron)));
    end if;
    if cardinality(fields) <> 5 then
        perform pgq._fail_cron(
            format('Given: "%s", which has %s field(s).', left(cron, 100), cardinality(fields))
        );
    end if;

    times.minutes := pgq._cron_field('minute', fields[1], 0, 59, '{}');
    times.hours := pgq._cron_field('hour', fields[2], 0, 23, '{}');
    times.days := pgq._cron_field('day of month', fields[3], 1, 31, '{}');
    times.months := pgq._cron_field(
        'month', fields[4], 1, 12, '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}'
    );
    times.weekdays := pgq._cron_field(
        'day of week', fields[5], 0, 7, '{sun,mon,tue,wed,thu,fri,sat}'
    );
    times.either_day := fields[3] !~ '^[*]' and fields[5] !~ '^[*]';
    times.real_time := fields[1] ~ '^[*]' or fields[2] ~ '^[*]';

    -- Every date falls on every weekday in some year, so refuse only impossible dates: days that
    -- none of the months has or, where only the last of a weekday is named, days that cannot be
    -- among the last seven of a month.
    if not times.either_day and not exists (
        select
        from unnest(times.months) as m (month)
        cross join lateral (
            select
                case when m.month = 2 then 29 when m.month in (4, 6, 9, 11) then 30 else 31 end
                as length
        ) as l
        cross join unnest(times.days) as d (day)
        where d.day <= l.length
            and (
                d.day = 0
                or times.weekdays[1] < 7
                or d.day > case when m.month = 2 then 21 else l.length - 7 end
            )
    ) then
        raise exception 'argument "cron" must match at least one date'
            using errcode = '22023',
                detail = format(
                    'Field "day of month": "%s"; field "month": "%s".', fields[3], fields[4]
                );
    end if;
    return times;
end
$$;

comment on function pgq._cron_times(text) is
'Parses a cron expression; refuses an invalid one, and one that matches no date (22023).';
