create function pgq._check_contents(
    lengths integer[], packed_payloads bytea, keys text[], headers jsonb[], starts integer[],
    packed_bodies bytea
)
returns integer[]
language plpgsql immutable parallel safe
as $$
declare
    packed bytea := coalesce(packed_payloads, packed_bodies);
    size integer := pgq._check_lengths(packed, lengths);
begin
    starts := coalesce(starts, pgq._starts(lengths));
    if greatest(array_ndims(starts), array_ndims(keys), array_ndims(headers)) > 1 then
        raise exception 'the arrays of a chunk must have one dimension' using errcode = '22023';
    end if;
    if cardinality(starts) <> size or cardinality(keys) <> size or cardinality(headers) <> size then
        raise exception 'the arrays of a chunk must have the same length'
            using errcode = '22023',
                detail = concat_ws(
                    ', ', 'messages: ' || size, 'starts: ' || cardinality(starts),
                    'keys: ' || cardinality(keys), 'headers: ' || cardinality(headers)
                );
    end if;
    if array_position(starts, null) is not null then
        raise exception 'argument "starts" must not contain null'
            using errcode = '22004', detail = 'Nothing was stored.';
    end if;

    -- Only the first and the last content are checked: the writer must make each one start where
    -- the previous one ends.
    if size > 0 and (starts[1] <> 1 or starts[size]::bigint + lengths[size] - 1 <> length(packed))
    then
        raise exception 'argument "starts" must fit "lengths"'
            using errcode = '22023',
                hint = 'They count from 1; leave them out to have them found from the lengths.';
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
    return starts;
end
$$;

comment on function pgq._check_contents(integer[], bytea, text[], jsonb[], integer[], bytea) is
'Checks the arrays and contents of a chunk of messages (22004, 22023), and returns the position of
the first byte of each content.';
