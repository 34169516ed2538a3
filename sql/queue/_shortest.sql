create function pgq._shortest(length interval)
returns interval
language sql immutable parallel safe
as $$
select
    make_interval(
        days => (
            s.years * case when s.years < 0 then 366 else 365 end
            + case
                when s.months < 0 then
                    -('{31, 62, 92, 123, 153, 184, 215, 245, 276, 306, 337}'::integer[])[-s.months]
                when s.months > 0 then
                    ('{28, 59, 89, 120, 150, 181, 212, 242, 273, 303, 334}'::integer[])[s.months]
                else 0
            end
            + s.days
        )::integer
    )
    + (_shortest.length - date_trunc('day', _shortest.length))
    - case when s.years = 0 and s.months = 0 and s.days = 0 then interval '0' else interval '1 hour'
    end
from (
    select
        date_part('year', _shortest.length) as years,
        date_part('month', _shortest.length)::integer as months,
        date_part('day', _shortest.length) as days
) as s
$$;

comment on function pgq._shortest(interval) is
'Returns the shortest duration that an interval can have. Months count with the fewest days that as
many consecutive months can have, subtracted months with the most; a day of a change to summer time
has 23 hours.';
