create function pgq._check_contents(
    lengths integer[], packed_payloads bytea, keys text[], headers jsonb[], starts integer[],
    packed_bodies bytea
)
returns integer[]
language plpgsql immutable parallel safe
as $$
declare
    packed bytea := coalesce(packed_payloads, packed_bodies);
    begins integer[] := starts;
begin
    if begins is null then
        perform pgq._check_lengths(packed, lengths);
        begins := pgq._starts(lengths);
    end if;
    perform pgq._check_packed(packed, begins, lengths, keys, headers);
    return begins;
end
$$;

comment on function pgq._check_contents(integer[], bytea, text[], jsonb[], integer[], bytea) is
'Checks the arrays and contents of a chunk of messages (22004, 22023), and returns the position of
the first byte of each content.';
