create function pgq._check_packed(
    packed bytea,
    starts integer[],
    lengths integer[],
    keys text[],
    headers jsonb[]
)
returns integer
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    size integer := cardinality(_check_packed.lengths);
    whole bigint;
    shortest integer;
begin
    select coalesce(sum(l.length), 0), min(l.length)
    into whole, shortest
    from unnest(_check_packed.lengths) as l (length);

    if array_position(_check_packed.lengths, null) is not null
        or array_position(_check_packed.starts, null) is not null
        or shortest < 0
    then
        raise exception 'a batch must not contain null'
            using errcode = '22004',
                detail = 'A length or start is null or negative; nothing was stored.';
    end if;
    if whole <> length(_check_packed.packed)
        or cardinality(_check_packed.starts) <> size
        or _check_packed.starts[1] <> 1
        or _check_packed.starts[size] + _check_packed.lengths[size] - 1 <> whole
    then
        raise exception 'the lengths of a chunk do not add up to its size'
            using errcode = '22023',
                detail = format(
                    'Lengths: %s bytes; chunk: %s bytes.', whole, length(_check_packed.packed)
                );
    end if;
    if cardinality(_check_packed.keys) <> size or cardinality(_check_packed.headers) <> size then
        raise exception 'the arrays of a batch must have the same length'
            using errcode = '22023';
    end if;
    if _check_packed.headers is not null
        and exists (
            select from unnest(_check_packed.headers) as h (header)
            where jsonb_typeof(h.header) <> 'object'
        )
    then
        raise exception 'headers must be JSON objects'
            using errcode = '22023';
    end if;
    return size;
end
$$;

comment on function pgq._check_packed(bytea, integer[], integer[], text[], jsonb[]) is
'The number of messages of a chunk that is stored as it is; refuses what does not add up.';
