create function pgq._check_interval(argument text, length interval, zero_allowed boolean)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_interval.length is null then
        raise exception 'argument "%" must not be null', _check_interval.argument
            using errcode = '22004';
    end if;
    -- Months, days and hours are added to a date one after the other, so a length whose parts have
    -- different signs may lead back although it compares as more than nothing.
    if least(
        date_part('year', _check_interval.length) * 12 + date_part('month', _check_interval.length),
        date_part('day', _check_interval.length),
        date_part('hour', _check_interval.length),
        date_part('minute', _check_interval.length),
        date_part('second', _check_interval.length)
    ) < 0
        or _check_interval.length > interval '36500 days'
        or (_check_interval.length = interval '0' and not _check_interval.zero_allowed)
    then
        raise exception 'argument "%" must be %',
            _check_interval.argument,
            case
                when _check_interval.zero_allowed then 'from 0 to 36500 days'
                else 'more than 0 and at most 36500 days'
            end
            using errcode = '22023',
                detail = format('Given: %s.', _check_interval.length),
                hint = 'No part of it may be negative.';
    end if;
end
$$;

comment on function pgq._check_interval(text, interval, boolean) is
'Refuses a length of time that is null (22004), longer than 36500 days, or has a negative part
(22023).';
