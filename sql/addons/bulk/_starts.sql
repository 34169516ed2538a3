create function pgq._starts(lengths integer[])
returns integer[]
language plpgsql immutable parallel safe
as $$
declare
    starts integer[] := array_fill(null::integer, array[cardinality(lengths)]);
    piece_length integer;
    n integer := 1;
    start_at integer := 1;
begin
    foreach piece_length in array lengths loop
        starts[n] := start_at;
        start_at := start_at + piece_length;
        n := n + 1;
    end loop;
    return starts;
end
$$;

comment on function pgq._starts(integer[]) is
'The position of the first byte of each content of a chunk, from 1, for lengths that add up to its
size.';
