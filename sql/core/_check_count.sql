create function pgq._check_count(argument text, number bigint, lowest bigint, highest bigint)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if number is null then
        raise exception 'argument "%" must not be null', argument using errcode = '22004';
    end if;
    if number not between lowest and highest then
        raise exception 'argument "%" must be from % to %',
            argument, lowest, highest
            using errcode = '22023', detail = format('Given: %s.', number);
    end if;
end
$$;

comment on function pgq._check_count(text, bigint, bigint, bigint) is
'Raises 22004 for a null, 22023 for a number outside the bounds.';
