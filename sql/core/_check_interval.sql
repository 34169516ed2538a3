create function pgq._check_interval(argument text, length interval, zero_allowed boolean)
returns void
language plpgsql immutable parallel safe
as $$
begin
    -- Months, days and hours are added to a date one after the other: an interval of mixed signs
    -- may lead to the past although it compares as positive.
    if least(
        date_part('year', length) * 12 + date_part('month', length), date_part('day', length),
        date_part('hour', length), date_part('minute', length), date_part('second', length)
    ) < 0 or length > interval '36500 days' or (length = interval '0' and not zero_allowed) then
        raise exception 'argument "%" must be %',
            argument,
            case
                when zero_allowed then 'from 0 to 36500 days'
                else 'more than 0 and at most 36500 days'
            end
            using errcode = '22023',
                detail = format('Given: %s.', length), hint = 'No part of it may be negative.';
    end if;
end
$$;

comment on function pgq._check_interval(text, interval, boolean) is
'Raises 22023 for an interval that has a negative part, is longer than 36500 days, or is 0 where
that is not allowed.';
