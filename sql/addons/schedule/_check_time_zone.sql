create function pgq._check_time_zone(time_zone text)
returns void
language plpgsql stable parallel safe
as $$
begin
    -- PostgreSQL also accepts abbreviations and POSIX rules such as CEST or X5: these have no
    -- daylight saving time, or are a misspelled name.
    if time_zone <> 'UTC' and not exists (
        select
        from pg_catalog.pg_timezone_names as z
        where z.name = time_zone
    ) then
        raise exception 'argument "time_zone" must name a time zone of the server'
            using errcode = '22023',
                detail = format('Given: "%s".', left(time_zone, 100)),
                hint = 'See pg_timezone_names for those that there are, such as Europe/Berlin.';
    end if;
end
$$;

comment on function pgq._check_time_zone(text) is
'Refuses a time zone that is not in pg_timezone_names (22023).';
