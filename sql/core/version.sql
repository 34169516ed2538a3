create function pgq.version()
returns text
language sql immutable parallel safe
as $$
select '1.0.0'
$$;

comment on function pgq.version() is
'The version of pgq in this database.';
