create function pgq._check_no_limit(no_limit text[], allowed text[])
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if not coalesce(_check_no_limit.no_limit, '{}') <@ _check_no_limit.allowed then
        raise exception 'argument "no_limit" names a setting that cannot be lifted'
            using errcode = '22023',
                detail = format(
                    'Given: %s; allowed: %s.',
                    array_to_string(_check_no_limit.no_limit, ', ', 'null'),
                    array_to_string(_check_no_limit.allowed, ', ')
                );
    end if;
end
$$;

comment on function pgq._check_no_limit(text[], text[]) is
'Refuses the name of a setting that has no limit to lift (22023).';
