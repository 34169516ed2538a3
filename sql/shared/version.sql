create function pgq.version()
returns text
language sql
immutable
parallel safe
as $$
select '0.2.0'
$$;

comment on function pgq.version() is
'The version of pgq that this database has.';
