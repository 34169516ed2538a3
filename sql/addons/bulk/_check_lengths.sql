create function pgq._check_lengths(packed bytea, lengths integer[])
returns integer
language plpgsql immutable parallel safe
as $$
declare
    size integer := cardinality(lengths);
    whole bigint;
    shortest integer;
begin
    if array_ndims(lengths) > 1 then
        raise exception 'the arrays of a chunk must have one dimension' using errcode = '22023';
    end if;
    if array_position(lengths, null) is not null then
        raise exception 'argument "lengths" must not contain null'
            using errcode = '22004',
                detail = format(
                    'Number %s of %s is null; nothing was stored.',
                    array_position(lengths, null), size
                );
    end if;

    select coalesce(sum(l.length), 0), min(l.length)
    into whole, shortest
    from (select unnest(lengths) as length) as l;

    if shortest < 0 then
        raise exception 'argument "lengths" must not contain negative numbers'
            using errcode = '22023', detail = 'Nothing was stored.';
    end if;
    if whole <> length(packed) then
        raise exception 'argument "lengths" must add up to the size of the chunk'
            using errcode = '22023',
                detail = format('Lengths: %s bytes; chunk: %s bytes.', whole, length(packed));
    end if;
    return size;
end
$$;

comment on function pgq._check_lengths(bytea, integer[]) is
'Returns the number of messages of a chunk; refuses lengths that are null (22004), negative, do not
add up to its size or have several dimensions (22023).';
