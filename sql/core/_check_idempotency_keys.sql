create function pgq._check_idempotency_keys(argument text, idempotency_keys text[], size integer)
returns void
language plpgsql immutable parallel safe
as $$
declare
    bad integer;
begin
    if array_ndims(idempotency_keys) > 1 then
        raise exception 'the arrays of a batch must have one dimension' using errcode = '22023';
    end if;
    if cardinality(idempotency_keys) <> size then
        raise exception 'the arrays of a batch must have the same length'
            using errcode = '22023',
                detail = format(
                    'messages: %s, idempotency_keys: %s', size, cardinality(idempotency_keys)
                );
    end if;

    select max(length(k.idempotency_key))
    into bad
    from unnest(idempotency_keys) as k (idempotency_key)
    where length(k.idempotency_key) not between 1 and 255;

    if bad is not null then
        raise exception 'argument "%" must have 1 to 255 characters',
            argument using errcode = '22023', detail = format('Given: one that has %s.', bad);
    end if;
end
$$;

comment on function pgq._check_idempotency_keys(text, text[], integer) is
'Raises 22023 unless the array has one element for each message, each null or of 1 to 255
characters.';
