create function pgq._check_name(argument text, name text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_name.name is null then
        raise exception 'argument "%" must not be null', _check_name.argument
            using errcode = '22004';
    end if;
    if _check_name.name !~ '^[A-Za-z0-9._-]{1,63}$' or _check_name.name ~ '^pg_' then
        raise exception 'argument "%" must be a valid name', _check_name.argument
            using errcode = '22023',
                detail = format('Given: "%s".', left(_check_name.name, 100)),
                hint = 'A name has 1 to 63 characters out of A-Z, a-z, 0-9, ".", "_" and "-", '
                    'and does not begin with "pg_".';
    end if;
end
$$;

comment on function pgq._check_name(text, text) is
'Refuses a name that is null (22004), or a bad one (22023).
It has the form [A-Za-z0-9._-]{1,63} and does not begin with pg_, a prefix that PostgreSQL keeps.';
