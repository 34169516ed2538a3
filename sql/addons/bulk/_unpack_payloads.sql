create function pgq._unpack_payloads(packed_payloads bytea, lengths integer[])
returns jsonb[]
language plpgsql immutable parallel safe
as $$
begin
    if packed_payloads is null then
        return null;
    end if;
    return array(
        select convert_from(u.content, 'UTF8')::jsonb
        from (select unnest(pgq._unpack(packed_payloads, lengths)) as content) as u
    );
end
$$;

comment on function pgq._unpack_payloads(bytea, integer[]) is
'Like _unpack, for JSON texts. Refuses contents that are not JSON (22P02, 22P05, 22021), or that the
database cannot store as JSON (22003, 54001).';
