create function pgq.next_ticks(
    cron text,
    time_zone text default null,
    after timestamptz default null,
    max_ticks integer default null
)
returns table (tick_at timestamptz)
language plpgsql stable parallel safe
security definer
set search_path = pgq, pg_temp
as $$
declare
    zone text := coalesce(time_zone, 'UTC');
    wanted integer := coalesce(max_ticks, 10);
    last_tick_at timestamptz := coalesce(after, pgq._clock());
    times pgq._cron_times;
begin
    if cron is null then
        raise exception 'argument "cron" must not be null' using errcode = '22004';
    end if;
    perform pgq._check_time_zone(zone collate "C");
    perform pgq._check_count('max_ticks', wanted, 1, 100000);
    perform pgq._check_year('after', last_tick_at);

    times := pgq._cron_times(cron collate "C");
    for n in 1 .. wanted loop
        last_tick_at := pgq._cron_tick(times, zone collate "C", last_tick_at);
        exit when last_tick_at >= '10000-01-01 00:00+00';
        tick_at := last_tick_at;
        return next;
    end loop;
end
$$;

comment on function pgq.next_ticks(text, text, timestamptz, integer) is
'Lists the next times that a cron expression matches, to try it out before it is used.
See create_schedule for cron and time_zone. after: by default now, a time of the years 1 to 9999.
max_ticks: how many times to return, by default 10; none is after the year 9999.
Errors: 22004 a required argument is null, 22023 bad argument.';
