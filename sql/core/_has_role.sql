create function pgq._has_role(caller text, roles text[])
returns boolean
language plpgsql stable parallel safe cost 1
as $$
declare
    -- Null if the role was dropped or renamed; pg_has_role then returns null.
    caller_id oid := to_regrole(quote_ident(caller));
    member text;
begin
    if caller collate "C" = any(roles) or 'public' = any(roles) then
        return true;
    end if;

    foreach member in array roles loop
        if pg_has_role(caller_id, to_regrole(quote_ident(member)), 'usage') then
            return true;
        end if;
    end loop;

    -- The owner of the schema and superusers have every access.
    return coalesce(
        pg_has_role(
            caller_id,
            (select n.nspowner from pg_catalog.pg_namespace as n where n.nspname = 'pgq'), 'usage'
        ),
        false
    );
end
$$;

comment on function pgq._has_role(text, text[]) is
'Whether a role is one of these roles, or has the privileges of one of them or of the owner of
pgq.';
