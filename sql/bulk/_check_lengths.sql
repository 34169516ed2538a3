create function pgq._check_lengths(packed bytea, lengths integer[])
returns integer
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    size integer := cardinality(_check_lengths.lengths);
    whole bigint;
    shortest integer;
    given bigint;
begin
    select coalesce(sum(l.length), 0), min(l.length), count(l.length)
    into whole, shortest, given
    from unnest(_check_lengths.lengths) as l (length);

    if given < size or shortest < 0 then
        raise exception 'a batch must not contain null'
            using errcode = '22004',
                detail = format(
                    'The length of message %s of %s is null or negative; nothing was stored.',
                    (
                        select min(l.place)
                        from unnest(_check_lengths.lengths) with ordinality as l (length, place)
                        where (l.length >= 0) is not true
                    ),
                    size
                );
    end if;
    if whole <> length(_check_lengths.packed) then
        raise exception 'the lengths of a chunk do not add up to its size'
            using errcode = '22023',
                detail = format(
                    'Lengths: %s bytes; chunk: %s bytes.', whole, length(_check_lengths.packed)
                );
    end if;
    return size;
end
$$;

comment on function pgq._check_lengths(bytea, integer[]) is
'The number of messages of a chunk; refuses lengths that are null, negative or do not fit.';
