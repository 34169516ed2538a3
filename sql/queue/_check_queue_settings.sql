create function pgq._check_queue_settings(settings pgq.queue_info)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    perform pgq._check_interval('lease', _check_queue_settings.settings.lease, false);
    perform pgq._check_interval('delay', _check_queue_settings.settings.delay, true);
    perform pgq._check_interval('backoff', _check_queue_settings.settings.backoff, true);
    perform pgq._check_interval('backoff_max', _check_queue_settings.settings.backoff_max, true);
    perform pgq._check_idempotency_window(_check_queue_settings.settings.idempotency_window);
    if _check_queue_settings.settings.max_attempts is not null then
        perform pgq._check_count(
            'max_attempts', _check_queue_settings.settings.max_attempts, 1, 2147483647
        );
    end if;
    if _check_queue_settings.settings.backoff_jitter not between 0 and 1 then
        raise exception 'argument "backoff_jitter" must be from 0 to 1'
            using errcode = '22023';
    end if;
    if _check_queue_settings.settings.unique_until collate "C"
        not in ('finished', 'claimed', 'removed')
    then
        raise exception 'argument "unique_until" must be finished, claimed or removed'
            using errcode = '22023';
    end if;
    if _check_queue_settings.settings.after_dead_letter collate "C" not in ('continue', 'stop') then
        raise exception 'argument "after_dead_letter" must be continue or stop'
            using errcode = '22023';
    end if;
    if _check_queue_settings.settings.max_leased is not null then
        perform pgq._check_count(
            'max_leased', _check_queue_settings.settings.max_leased, 1, 10000
        );
    end if;
    if _check_queue_settings.settings.max_leased_per_key is not null then
        perform pgq._check_count(
            'max_leased_per_key', _check_queue_settings.settings.max_leased_per_key, 1, 10000
        );
    end if;
    if _check_queue_settings.settings.max_unfinished is not null then
        perform pgq._check_count(
            'max_unfinished', _check_queue_settings.settings.max_unfinished, 1, 2147483647
        );
    end if;
    if _check_queue_settings.settings.rate_limit is not null then
        perform pgq._check_count(
            'rate_limit', _check_queue_settings.settings.rate_limit, 1, 1000000
        );
    end if;
    if _check_queue_settings.settings.rate_interval is not null then
        perform pgq._check_interval(
            'rate_interval', _check_queue_settings.settings.rate_interval, false
        );
    end if;
    if _check_queue_settings.settings.rate_burst is not null then
        perform pgq._check_count(
            'rate_burst', _check_queue_settings.settings.rate_burst, 1, 1000000
        );
    end if;
    if _check_queue_settings.settings.retention is not null then
        perform pgq._check_interval('retention', _check_queue_settings.settings.retention, false);
    end if;
    if _check_queue_settings.settings.job_ttl is not null then
        perform pgq._check_interval('job_ttl', _check_queue_settings.settings.job_ttl, false);
    end if;
end
$$;

comment on function pgq._check_queue_settings(pgq.queue_info) is
'Refuses settings that no queue can have, each looked at by itself (22023).';
