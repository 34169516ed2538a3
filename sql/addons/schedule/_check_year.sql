create function pgq._check_year(argument text, tick_at timestamptz)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if tick_at < '0001-01-01 00:00+00' or tick_at >= '10000-01-01 00:00+00' then
        raise exception 'argument "%" must be a time of the years 1 to 9999', argument
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_year(text, timestamptz) is
'Refuses a time outside the years 1 to 9999 (22023): its next tick could be out of the range of
timestamptz.';
