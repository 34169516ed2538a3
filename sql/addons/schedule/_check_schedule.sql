create function pgq._check_schedule(settings pgq.schedule_info)
returns void
language plpgsql stable parallel safe
as $$
begin
    if num_nonnulls(settings.topic, settings.queue) <> 1 then
        raise exception '"topic", "queue": exactly one is needed'
            using errcode = case
                when settings.queue is null then '22004' else '22023'
                end,
                hint = 'Pass topic, which gets messages, or queue, which gets jobs.';
    end if;
    if num_nonnulls(settings.cron, settings.every) <> 1 then
        raise exception '"cron", "every": exactly one is needed'
            using errcode = case
                when settings.cron is null then '22004' else '22023'
                end,
                hint = 'Pass cron, like ''30 8 * * MON-FRI'', or every, like ''1 hour''.';
    end if;

    perform pgq._check_content(settings.payload, settings.headers, settings.body);
    if settings.headers ? 'scheduled_at' then
        raise exception 'argument "headers" must not have "scheduled_at"'
            using errcode = '22023', detail = 'The time of the tick travels in this header.';
    end if;

    if settings.queue is not null then
        perform pgq._check_count('priority', settings.priority, 0, 9);
        perform pgq._check_label(settings.label);
    end if;
    if (settings.queue is not null and settings.partition is not null)
        or (settings.topic is not null and num_nonnulls(settings.priority, settings.label) > 0)
    then
        raise exception 'the target of the schedule has no such setting'
            using errcode = '22023',
                hint = 'partition goes with a topic, priority and label go with a queue.';
    end if;

    if settings.cron is not null then
        perform pgq._cron_times(settings.cron);
        perform pgq._check_time_zone(settings.time_zone);
    else
        perform pgq._check_interval('every', settings.every, false);
        if date_part('year', settings.every) > 0
            or date_part('month', settings.every) > 0
            or settings.every < interval '1 second'
        then
            raise exception 'argument "every" must be at least a second, without months or years'
                using errcode = '22023',
                    detail = format('Given: %s.', settings.every),
                    hint = 'A month has no fixed length: use cron for times of the calendar.';
        end if;
        if settings.time_zone is not null then
            raise exception '"every" and "time_zone" exclude each other'
                using errcode = '22023',
                    hint = 'An interval is counted in real time: a day has 24 hours.';
        end if;
    end if;
    if settings.missed not in ('skip', 'one', 'all') then
        raise exception 'argument "missed" must be skip, one or all' using errcode = '22023';
    end if;
    perform pgq._check_year('starts_at', settings.starts_at);
end
$$;

comment on function pgq._check_schedule(pgq.schedule_info) is
'Refuses invalid settings of a schedule (22004, 22023).';
