create function pgq._of_first(roles text[])
returns boolean
language sql
stable
parallel safe
as $$
select pg_has_role(pgq._caller(), to_regrole(quote_ident(roles[1])), 'usage')
$$;

comment on function pgq._of_first(text[]) is
'Whether the caller has the privileges of the first of these roles: asked before _may, too.';
