create function pgq._check_packed(
    packed bytea, starts integer[], lengths integer[], keys text[], headers jsonb[]
)
returns integer
language plpgsql immutable parallel safe
as $$
declare
    size integer := pgq._check_lengths(packed, lengths);
begin
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
    if size > 0
        and (
            starts[array_lower(starts, 1)] <> 1
            or starts[array_upper(starts, 1)]::bigint
            + lengths[array_upper(lengths, 1)] - 1
            <> length(packed)
        )
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
    return size;
end
$$;

comment on function pgq._check_packed(bytea, integer[], integer[], text[], jsonb[]) is
'Returns the number of messages of a packed chunk; refuses arrays that do not fit together (22004,
22023).';
