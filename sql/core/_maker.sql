create function pgq._maker()
returns text
language plpgsql volatile parallel unsafe
as $$
declare
    caller text := pgq._caller();
begin
    if caller is null then
        raise exception 'permission denied to create anything while a table is maintained'
            using errcode = '42501';
    end if;
    return case when not pgq._has_role(caller, '{}') then caller end;
end
$$;

comment on function pgq._maker() is
'The role that answers for objects that the caller creates, by name; null for the owner of pgq and
roles that have its privileges.';
