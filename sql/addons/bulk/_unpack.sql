create function pgq._unpack(packed bytea, lengths integer[])
returns bytea[]
language plpgsql immutable parallel safe
as $$
declare
    -- Concatenation detoasts the value once, not for every piece.
    whole bytea := packed || ''::bytea;
begin
    if whole is null then
        return null;
    end if;
    perform pgq._check_lengths(whole, lengths);

    return array(
        select substring(whole from p.start for p.length)
        from (select unnest(pgq._starts(lengths)) as start, unnest(lengths) as length) as p
    );
end
$$;

comment on function pgq._unpack(bytea, integer[]) is
'Splits the packed contents of a chunk; null for null. Refuses lengths that are null, negative or do
not fit.';
