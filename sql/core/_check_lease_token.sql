create function pgq._check_lease_token(lease_token uuid)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if lease_token is null then
        raise exception 'argument "lease_token" must not be null' using errcode = '22004';
    end if;
end
$$;

comment on function pgq._check_lease_token(uuid) is
'Raises 22004 for a null token.';
