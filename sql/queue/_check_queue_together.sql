create function pgq._check_queue_together(settings pgq.queue_info)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if settings.rate_limit is null
        and (settings.rate_interval is not null or settings.rate_burst is not null)
    then
        raise exception 'argument "%" must come with "rate_limit"',
            case when settings.rate_interval is not null then 'rate_interval' else 'rate_burst' end
            using errcode = '22023';
    end if;
    if settings.ordered and settings.max_leased_per_key is not null then
        raise exception '"max_leased_per_key" and "ordered" exclude each other'
            using errcode = '22023',
                hint = 'Of a key of an ordered queue one job is leased at a time.';
    end if;
    -- Must hold at any date: the length of months and days varies.
    if pgq._shortest(settings.job_ttl - settings.delay) <= interval '0' then
        raise exception 'argument "delay" must be shorter than "job_ttl"'
            using errcode = '22023',
                detail = format('Delay: %s; job_ttl: %s.', settings.delay, settings.job_ttl),
                hint = 'A month may have 28 to 31 days, and a day 23 to 25 hours.';
    end if;
end
$$;

comment on function pgq._check_queue_together(pgq.queue_info) is
'Rejects settings of a queue that are invalid in combination (22023).';
