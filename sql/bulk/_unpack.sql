create function pgq._unpack(packed bytea, lengths integer[])
returns bytea[]
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    -- Joined with nothing it is read from storage once, not for every piece.
    whole bytea := _unpack.packed || ''::bytea;
    pieces bytea[] := array_fill(null::bytea, array[cardinality(_unpack.lengths)]);
    piece_length integer;
    number integer := 1;
    place integer := 1;
begin
    foreach piece_length in array _unpack.lengths loop
        if (piece_length >= 0) is not true then
            raise exception 'a batch must not contain null'
                using errcode = '22004',
                    detail = format(
                        'Message %s of %s is null or has a negative length; nothing was stored.',
                        number, cardinality(_unpack.lengths)
                    );
        end if;
        pieces[number] := substring(whole from place for piece_length);
        place := place + piece_length;
        number := number + 1;
    end loop;

    if place - 1 <> length(whole) then
        raise exception 'the lengths of a chunk do not add up to its size'
            using errcode = '22023',
                detail = format('Lengths: %s bytes; chunk: %s bytes.', place - 1, length(whole));
    end if;
    return pieces;
end
$$;

comment on function pgq._unpack(bytea, integer[]) is
'The contents of a chunk, one by one; refuses lengths that are null, negative or do not fit.';
