create function pgq._shortest(length interval)
returns interval
language sql
immutable
parallel safe
as $$
select
    make_interval(
        days => (
            s.years * case when s.years < 0 then 366 else 365 end
            + s.months * case when s.months < 0 then 31 else 28 end
            + s.days
        )::integer
    )
    + (_shortest.length - date_trunc('day', _shortest.length))
    - case
        when s.years = 0 and s.months = 0 and s.days = 0 then interval '0'
        else interval '1 hour'
    end
from (
    select
        date_part('year', _shortest.length) as years,
        date_part('month', _shortest.length) as months,
        date_part('day', _shortest.length) as days
) as s
$$;

comment on function pgq._shortest(interval) is
'The shortest that a length of time can be: a month has 28 days at least, and a day of a change to
summer time 23 hours.';
