create function pgq._revoke_others(names text[])
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    relation regclass;
    routine regprocedure;
    grantee_name name;
begin
    for relation, grantee_name in
        select distinct c.oid, coalesce(r.rolname, 'public')
        from pg_catalog.pg_class as c
        cross join lateral aclexplode(c.relacl) as x
        left join pg_catalog.pg_roles as r on r.oid = x.grantee
        where c.relnamespace = 'pgq'::regnamespace
            and c.relkind in ('r', 'p', 'v', 'S')
            and (c.relname = any(names) or names is null)
            and x.grantee <> c.relowner
    loop
        execute format('revoke all on %s from %I', relation, grantee_name);
    end loop;

    for routine, grantee_name in
        select distinct p.oid, coalesce(r.rolname, 'public')
        from pg_catalog.pg_proc as p
        cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as x
        left join pg_catalog.pg_roles as r on r.oid = x.grantee
        where p.pronamespace = 'pgq'::regnamespace
            and (p.proname = any(names) or names is null)
            and x.grantee <> p.proowner
    loop
        execute format('revoke all on function %s from %I', routine, grantee_name);
    end loop;
end
$$;

comment on function pgq._revoke_others(text[]) is
'Revokes all privileges of roles other than the owner on these relations and functions, or on all.
Call it for new objects: PUBLIC may execute new functions, and default privileges of the owner may
grant more.';
