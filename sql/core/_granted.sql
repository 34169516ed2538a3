create function pgq._granted(scope text, target_id bigint, access text)
returns text[]
language sql stable parallel safe
as $$
select coalesce(array_agg(r.role order by r.only_admin, r.login, r.role), '{}')
from (
    select
        g.role, min((g.access = 'admin')::integer) as only_admin,
        coalesce((
            select a.rolcanlogin
            from pg_catalog.pg_roles as a
            where a.rolname = g.role
        ), true) as login
    from pgq.access_grant as g
    where g.scope = _granted.scope
        and coalesce(g.topic_id, g.queue_id, 0) in (0, _granted.target_id)
        and (g.access in (_granted.access, 'admin') or _granted.access = 'monitor')
    group by g.role
) as r
$$;

comment on function pgq._granted(text, bigint, text) is
'The roles that have this access to a topic or a queue, or to all of them. Every access includes
monitor; admin includes every access. The roles that most callers are members of come first.';
