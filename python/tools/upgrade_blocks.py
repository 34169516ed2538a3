"""What upgrade scripts begin with."""

from __future__ import annotations

__all__ = ["GUARD", "KEEP", "LOCK"]

GUARD = """\
-- Stop before anything is changed where this is not the way to go. The setting lasts as long as the
-- transaction: outside of one, the next statement does not find it.
set local pgq.upgrade = '{after}';
set local standard_conforming_strings = on;

do $guard$
declare
    owner_name text := (
        select pg_get_userbyid(n.nspowner)
        from pg_namespace as n
        where n.nspname = 'pgq'
    );
begin
    if current_setting('pgq.upgrade', true) is distinct from '{after}' then
        raise exception 'an upgrade has to be one transaction'
            using errcode = '25P01',
                hint = 'Run it by psql -1.';
    end if;
    if pgq.version() <> '{before}' then
        raise exception 'this leads from pgq {before} to {after}, and here is %', pgq.version()
            using errcode = '55000';
    end if;
    -- While an extension is updated, it has the new version already.
    if exists (select from pg_extension where extname = 'pgq' and extversion <> '{after}') then
        raise exception 'pgq is installed as an extension in this database'
            using errcode = '55000',
                hint = 'Run alter extension pgq update instead.';
    end if;
    -- What another role made would be another role's, and would run with its rights.
    if owner_name <> current_user then
        raise exception 'only the owner of pgq, %, can upgrade it', owner_name
            using errcode = '42501',
                hint = format('Run set role %I before.', owner_name);
    end if;
end
$guard$;
"""

KEEP = """\
-- What others were granted on all that is made anew. They get it back when the transaction ends;
-- what is open to all by the installation is granted below.
insert into pgq.kept_grant (statement)
select distinct format(
    'grant %s%s on %s pgq.%I to %s%s',
    k.privilege_type,
    ' (' || quote_ident(k.column_name) || ')',
    k.kind,
    k.name,
    case when k.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(k.grantee)) end,
    case when k.is_grantable then ' with grant option' end
)
from (
    select 'function' as kind, p.proname as name, null::name as column_name, x.*
    from pg_proc as p
    cross join aclexplode(p.proacl) as x
    where p.pronamespace = 'pgq'::regnamespace
        and x.grantee <> p.proowner
    union all
    select 'table', c.relname, null, x.*
    from pg_class as c
    cross join aclexplode(c.relacl) as x
    where c.relnamespace = 'pgq'::regnamespace
        and x.grantee <> c.relowner
    union all
    select 'table', c.relname, a.attname, x.*
    from pg_class as c
    inner join pg_attribute as a on a.attrelid = c.oid
    cross join aclexplode(a.attacl) as x
    where c.relnamespace = 'pgq'::regnamespace
        and x.grantee <> c.relowner
) as k
where k.name = any ('{{{names}}}')
    and (k.grantee <> 0 or k.name <> all ('{{{opened}}}'));
"""

LOCK = """\
-- Everything at once, before anything is changed. Whoever waits for one lock with another in hand
-- stops all who come behind, and meets those who took them in another order. So it waits for each a
-- moment only, lets all of them go, and tries again, for as long as the lock_timeout of the session
-- says; where there is none, for ten minutes.
do $lock$
declare
    given text := current_setting('lock_timeout');
    give_up timestamptz := clock_timestamp()
        + coalesce(nullif(given::interval, '0'::interval), '10 minutes'::interval);
    tables text := (
        select string_agg(format('pgq.%I', c.relname), ', ' order by c.relname)
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace
            and c.relkind in ('r', 'p')
            and not c.relispartition
    );
begin
    perform set_config('lock_timeout', '200ms', true);
    loop
        begin
            execute format('lock table %s in access exclusive mode', tables);
            exit;
        exception
            when lock_not_available or deadlock_detected then
                if clock_timestamp() > give_up then
                    raise exception 'pgq is in use, and no moment was found to upgrade it'
                        using errcode = '55P03',
                            hint = 'Nothing was changed. End the transactions that have been open'
                                ' for long (pg_stat_activity), or set a longer lock_timeout.';
                end if;
        end;
        perform pg_sleep(0.1 + random() * 0.2);
    end loop;
    perform set_config('lock_timeout', given, true);
    if pgq.version() <> '{before}' then
        raise exception 'this leads from pgq {before} to {after}, and here is %', pgq.version()
            using errcode = '55000',
                detail = 'Another upgrade was first.';
    end if;
end
$lock$;
"""
