create function pgq._check_count(argument text, number bigint, lowest bigint, highest bigint)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_count.number is null then
        raise exception 'argument "%" must not be null', _check_count.argument
            using errcode = '22004';
    end if;
    if _check_count.number not between _check_count.lowest and _check_count.highest then
        raise exception 'argument "%" must be from % to %',
            _check_count.argument, _check_count.lowest, _check_count.highest
            using errcode = '22023',
                detail = format('Given: %s.', _check_count.number);
    end if;
end
$$;

comment on function pgq._check_count(text, bigint, bigint, bigint) is
'Refuses a number that is null (22004) or outside the bounds (22023).';
