create function pgq._unpack(packed bytea, lengths integer[])
returns bytea[]
language plpgsql immutable parallel safe
as $$
declare
    -- Concatenation detoasts the value once, not for every piece.
    whole bytea := packed || ''::bytea;
    size integer;
    pieces bytea[];
    piece_length integer;
    number integer := 1;
    place integer := 1;
begin
    if whole is null then
        return null;
    end if;

    size := pgq._check_lengths(whole, lengths);
    pieces := array_fill(null::bytea, array[size]);
    foreach piece_length in array lengths loop
        pieces[number] := substring(whole from place for piece_length);
        place := place + piece_length;
        number := number + 1;
    end loop;
    return pieces;
end
$$;

comment on function pgq._unpack(bytea, integer[]) is
'Splits the packed contents of a chunk; null for null. Refuses lengths that are null, negative or do
not fit.';
