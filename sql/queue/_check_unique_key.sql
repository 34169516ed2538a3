create function pgq._check_unique_key(unique_key text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if length(unique_key) not between 1 and 255 then
        raise exception 'argument "unique_key" must have 1 to 255 characters'
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_unique_key(text) is
'Rejects a unique key that is empty or longer than 255 characters (22023).';
