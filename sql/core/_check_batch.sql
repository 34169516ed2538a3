create function pgq._check_batch(
    payloads jsonb[], keys text[], headers jsonb[], labels text[], bodies bytea[]
)
returns integer
language plpgsql immutable parallel safe
as $$
declare
    size integer;
    gap integer;
begin
    if (payloads is null) = (bodies is null) then
        raise exception '"payloads", "bodies": exactly one is needed'
            using errcode = case when payloads is null then '22004' else '22023' end,
                hint = 'Pass payloads (jsonb[]) or bodies (bytea[]). JSON null is ''null''::jsonb.';
    end if;
    if array_ndims(payloads) > 1 or array_ndims(bodies) > 1
        or array_ndims(keys) > 1 or array_ndims(headers) > 1
        or array_ndims(labels) > 1
    then
        raise exception 'the arrays of a batch must have one dimension' using errcode = '22023';
    end if;
    size := coalesce(cardinality(payloads), cardinality(bodies));
    if cardinality(keys) <> size or cardinality(headers) <> size or cardinality(labels) <> size then
        raise exception 'the arrays of a batch must have the same length'
            using errcode = '22023',
                detail = concat_ws(
                    ', ', 'messages: ' || size, 'keys: ' || cardinality(keys),
                    'headers: ' || cardinality(headers), 'labels: ' || cardinality(labels)
                );
    end if;
    gap := coalesce(
        array_position(payloads, null) - array_lower(payloads, 1),
        array_position(bodies, null) - array_lower(bodies, 1)
    );
    if gap is not null then
        raise exception 'argument "%" must not contain null',
            case when payloads is null then 'bodies' else 'payloads' end
            using errcode = '22004',
                detail = format('Number %s of %s is null; nothing was stored.', gap + 1, size);
    end if;
    if headers is not null
        and exists (
            select from unnest(headers) as h (header)
            where jsonb_typeof(h.header) <> 'object'
        )
    then
        raise exception 'argument "headers" must contain nothing but JSON objects'
            using errcode = '22023';
    end if;
    return size;
end
$$;

comment on function pgq._check_batch(jsonb[], text[], jsonb[], text[], bytea[]) is
'Returns the number of messages of a batch. Raises 22004 or 22023 unless exactly one kind of content
is given, without nulls, and all arrays have one dimension, equal lengths and valid headers.';
