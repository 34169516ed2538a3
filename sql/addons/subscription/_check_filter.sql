create function pgq._check_filter(filter jsonb)
returns void
language plpgsql immutable parallel safe
as $$
declare
    name text;
    size integer;
begin
    if jsonb_typeof(filter) <> 'object' then
        raise exception 'argument "filter" must be a JSON object'
            using errcode = '22023',
                hint = 'It has a list of values for each header, like {"status": ["shipped"]}.';
    end if;

    select f.key
    into name
    from jsonb_each(filter) as f
    where jsonb_typeof(f.value) <> 'array'
    limit 1;

    if found then
        raise exception 'argument "filter" must have a list of values for each header'
            using errcode = '22023',
                detail = format('Header "%s" has none.', left(name, 100)),
                hint = 'Write it like {"status": ["processed", "shipped"]}.';
    end if;

    -- Limit the size: each publish evaluates the whole filter under the lock of the partition.
    size := octet_length(filter::text);
    if size > 8192 then
        raise exception 'argument "filter" must have at most 8192 bytes'
            using errcode = '22023',
                detail = format('Given: %s bytes.', size),
                hint = 'Have the publisher add a header that says what the values have in common.';
    end if;

    select f.key, jsonb_array_length(f.value)
    into name, size
    from jsonb_each(filter) as f
    where jsonb_array_length(f.value) > 100
    limit 1;

    if found then
        raise exception 'argument "filter" must have at most 100 values for a header'
            using errcode = '22023',
                detail = format('Header "%s" has %s.', left(name, 100), size),
                hint = 'Have the publisher add a header that says what the values have in common.';
    end if;
end
$$;

comment on function pgq._check_filter(jsonb) is
'Refuses a filter that is not a JSON object of arrays, or is too large (22023).';
