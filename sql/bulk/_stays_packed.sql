create function pgq._stays_packed(
    target pgq._write_target,
    keys text[],
    partition integer,
    starts integer[],
    packed_bodies bytea
)
returns boolean
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
begin
    return _stays_packed.starts is not null
        and _stays_packed.packed_bodies is not null
        and (_stays_packed.target).topic is not null
        and (_stays_packed.keys is null or _stays_packed.partition is not null)
        and current_setting('transaction_isolation') not in ('repeatable read', 'serializable');
end
$$;

comment on function pgq._stays_packed(pgq._write_target, text[], integer, integer[], bytea) is
'Whether a chunk stays packed until its messages are stored, which takes least time: bodies that all
go to one partition, and whose starts the writer gave.';
