create function pgq._check_unique_keys(unique_keys text[], size integer)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if array_ndims(unique_keys) > 1 then
        raise exception 'the arrays of a batch must have one dimension' using errcode = '22023';
    end if;
    if cardinality(unique_keys) <> size then
        raise exception 'the arrays of a batch must have the same length'
            using errcode = '22023',
                detail = format('messages: %s, unique_keys: %s', size, cardinality(unique_keys));
    end if;

    if exists (
        select
        from unnest(unique_keys) as k (unique_key)
        where length(k.unique_key) not between 1 and 255
    ) then
        raise exception 'argument "unique_keys" must contain texts of 1 to 255 characters'
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_unique_keys(text[], integer) is
'Rejects unique keys that are empty or longer than 255 characters, or an array that does not match
the messages of a batch (22023).';
