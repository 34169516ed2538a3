create function pgq._check_roles(names text[])
returns void
language plpgsql stable parallel safe
as $$
declare
    found_role record;
begin
    for found_role in
        select r.rolname, r.rolcanlogin, m.members
        from pg_catalog.pg_roles as r
        cross join lateral (
            -- From PostgreSQL 16 on, the creator of a role becomes a member of it: do not count it.
            select string_agg(format('"%s"', a.rolname), ', ' order by a.rolname) as members
            from pg_catalog.pg_auth_members as g
            inner join pg_catalog.pg_roles as a on a.oid = g.member
            where g.roleid = r.oid and a.rolname <> current_user
        ) as m
        where r.rolname = any(names)
            and not exists (
                select
                from pg_catalog.pg_namespace as n
                cross join lateral aclexplode(n.nspacl) as x
                where n.nspname = 'pgq' and x.grantee = r.oid
            )
            and (
                r.rolcanlogin
                or m.members is not null
                or not pg_has_role(r.oid, 'member with admin option')
                and not (
                    current_setting('server_version_num')::integer < 160000
                    and (
                        select c.rolcreaterole
                        from pg_catalog.pg_roles as c
                        where c.rolname = current_user
                    )
                )
            )
    loop
        raise exception 'role "%" exists already, and has no rights in this pgq yet',
            found_role.rolname
            using errcode = '42501',
                detail = concat_ws(
                    ' ',
                    coalesce('Its members: ' || found_role.members || '.', 'It has no members.'),
                    case when found_role.rolcanlogin then 'It may log in.' end
                ),
                hint = 'They would get its rights. To give them, call'
                    ' pgq.create_roles(adopt => true).';
    end loop;
end
$$;

comment on function pgq._check_roles(text[]) is
'Raises 42501 when one of these roles exists without rights in this pgq, and may log in, has members
other than the caller, or is not administered by the caller.';
