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
    if settings.on_duplicate <> 'keep' and settings.unique_until <> 'claimed' then
        raise exception 'argument "on_duplicate" must be keep unless "unique_until" is claimed'
            using errcode = '22023',
                detail = format(
                    'on_duplicate: %s; unique_until: %s.', settings.on_duplicate,
                    settings.unique_until
                ),
                hint = 'A job that a worker has cannot be replaced: a duplicate of it is added.';
    end if;
    if settings.on_duplicate <> 'keep' and settings.max_leased_per_key is not null
        or settings.on_duplicate = 'postpone' and settings.ordered
    then
        raise exception '"on_duplicate" and "%" exclude each other',
            case when settings.ordered then 'ordered' else 'max_leased_per_key' end
            using errcode = '22023';
    end if;
    if settings.debounce_max is not null and settings.on_duplicate <> 'postpone' then
        raise exception 'argument "debounce_max" must be null unless "on_duplicate" is postpone'
            using errcode = '22023';
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
