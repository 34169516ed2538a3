create function pgq._fail_cron(detail text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    raise exception 'argument "cron" must be a cron expression'
        using errcode = '22023',
            detail = detail,
            hint = 'Five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or '
                'JAN-DEC), day of week (0-7 or SUN-SAT). Each is *, a number, a range like 1-5, '
                'either of the last with a step like */10 or 8-18/2, or several of these with '
                'commas between. L is the last day of the month, FRIL or 5L its last Friday. '
                'Or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually.';
end
$$;

comment on function pgq._fail_cron(text) is
'Refuses a cron expression (22023); the argument becomes the DETAIL.';
