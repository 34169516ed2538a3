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
    if _check_queue_settings.settings.max_attempts is not null then
        perform pgq._check_count(
            'max_attempts', _check_queue_settings.settings.max_attempts, 1, 2147483647
        );
    end if;
    if (_check_queue_settings.settings.backoff_jitter between 0 and 1) is not true then
        raise exception 'argument "backoff_jitter" must be from 0 to 1'
            using errcode = case
                when _check_queue_settings.settings.backoff_jitter is null then '22004'
                else '22023'
            end;
    end if;
    if _check_queue_settings.settings.archive is null
        or _check_queue_settings.settings.notify is null
    then
        raise exception 'arguments "archive" and "notify" must not be null'
            using errcode = '22004';
    end if;
    if _check_queue_settings.settings.retention is not null then
        perform pgq._check_interval('retention', _check_queue_settings.settings.retention, false);
        if _check_queue_settings.settings.delay >= _check_queue_settings.settings.retention then
            raise exception 'the delay must be shorter than the retention'
                using errcode = '22023',
                    detail = format(
                        'Delay: %s; retention: %s.',
                        _check_queue_settings.settings.delay,
                        _check_queue_settings.settings.retention
                    );
        end if;
    end if;
end
$$;

comment on function pgq._check_queue_settings(pgq.queue_info) is
'Refuses settings that a queue cannot have (22004, 22023).';
