create function pgq._check_worker(worker text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if worker is null then
        raise exception 'argument "worker" must not be null' using errcode = '22004';
    end if;
    if worker !~ E'^[^\\x01-\\x1f\\x7f]{1,200}$' then
        raise exception 'argument "worker" must have 1 to 200 characters'
            using errcode = '22023',
                detail = format('Given: "%s".', left(worker, 100)),
                hint = 'None of them may be a control character.';
    end if;
end
$$;

comment on function pgq._check_worker(text) is
'Raises 22004 for a worker name that is null, 22023 for a bad one.';
