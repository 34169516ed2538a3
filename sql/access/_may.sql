create function pgq._may(roles text[])
returns boolean
language plpgsql
stable
parallel safe
cost 1
as $$
#variable_conflict use_column
declare
    caller text := pgq._caller();
    member text;
begin
    if _may.roles is null or caller collate "C" = any(_may.roles) or 'public' = any(_may.roles) then
        return true;
    end if;

    foreach member in array _may.roles loop
        -- A role that is no more is nobody's.
        if pg_has_role(caller, to_regrole(quote_ident(member)), 'usage') then
            return true;
        end if;
    end loop;

    -- The owner of the schema may do everything, and so may superusers.
    return pg_has_role(
        caller,
        (select n.nspowner from pg_catalog.pg_namespace as n where n.nspname = 'pgq'),
        'usage'
    )
    or exists (
        select
        from pgq.view_key as k
        where k.key::text = current_setting('pgq.acts_for_owner', true)
    );
end
$$;

comment on function pgq._may(text[]) is
'Whether the caller is one of these roles or has their privileges, or those of the owner of pgq;
null stands for every role.';
