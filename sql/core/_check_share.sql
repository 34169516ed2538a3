create function pgq._check_share(argument text, share double precision)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if share not between 0 and 1 then
        raise exception 'argument "%" must be from 0 to 1', argument using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_share(text, double precision) is
'Raises 22023 for a share that is not from 0 to 1.';
