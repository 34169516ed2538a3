create function pgq._check_name(argument text, name text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if name is null then
        raise exception 'argument "%" must not be null', argument using errcode = '22004';
    end if;
    if name !~ '^[A-Za-z0-9._-]{1,63}$' or name ~ '^pg_' then
        raise exception 'argument "%" must be a valid name', argument
            using errcode = '22023',
                detail = format('Given: "%s".', left(name, 100)),
                hint = 'A name has 1 to 63 characters out of A-Z, a-z, 0-9, ".", "_" and "-", '
                    'and does not begin with "pg_".';
    end if;
end
$$;

comment on function pgq._check_name(text, text) is
'Raises 22004 for a name that is null, 22023 for a bad one.
A name has the form [A-Za-z0-9._-]{1,63} and does not begin with pg_, a prefix reserved by
PostgreSQL.';
