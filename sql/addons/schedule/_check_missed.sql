create function pgq._check_missed(settings pgq.schedule_info, now_at timestamptz)
returns void
language plpgsql stable parallel safe
as $$
declare
    -- Writing this many ticks takes days.
    most constant bigint := 1000000000;
    times pgq._cron_times;
    seconds double precision := extract(epoch from now_at - (settings).next_at);
    missed double precision;
begin
    if (settings).missed <> 'all' or seconds <= 0 then
        return;
    end if;

    if (settings).every is not null then
        missed := seconds / extract(epoch from (settings).every);
    else
        -- Upper bound: count every day as one that the expression matches.
        times := pgq._cron_times((settings).cron);
        missed := seconds / 86400 * cardinality(times.hours) * cardinality(times.minutes);
    end if;

    if missed > most then
        raise exception 'argument "missed" must not be all for more than % ticks', most
            using errcode = '22023',
                detail = format(
                    'It would write up to %s ticks from %s on.', round(missed::numeric),
                    (settings).next_at
                ),
                hint = 'Pass a later starts_at, or missed => ''one''.';
    end if;
end
$$;

comment on function pgq._check_missed(pgq.schedule_info, timestamptz) is
'Refuses a schedule with missed = all that would have too many ticks to write at once (22023).';
