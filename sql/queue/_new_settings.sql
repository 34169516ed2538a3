create function pgq._new_settings(given pgq.queue_info, before pgq.queue_info, no_limit text[])
returns pgq.queue_info
language plpgsql stable parallel safe
as $$
declare
    settings pgq.queue_info;
begin
    perform pgq._check_no_limit(no_limit, pgq._liftable(to_jsonb(given), pgq._queue_settings()));

    settings := pgq._merge_settings(given, before, no_limit);
    if settings.rate_limit is null then
        settings.rate_interval := given.rate_interval;
        settings.rate_burst := given.rate_burst;
    else
        settings.rate_interval := coalesce(settings.rate_interval, '1 second');
        -- rate_burst follows the rate_limit unless it was set to another value.
        settings.rate_burst := coalesce(
            given.rate_burst, nullif(before.rate_burst, before.rate_limit), settings.rate_limit
        );
    end if;
    perform pgq._check_settings(to_jsonb(settings), pgq._queue_settings());
    return settings;
end
$$;

comment on function pgq._new_settings(pgq.queue_info, pgq.queue_info, text[]) is
'Returns the settings of a queue that is created or altered: those given, else those before.
Rejects invalid ones (22023).';
