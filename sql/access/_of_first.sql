create function pgq._of_first(caller text, roles text[])
returns boolean
language sql
stable
parallel safe
as $$
select pg_has_role(to_regrole(quote_ident(caller)), to_regrole(quote_ident(roles[1])), 'usage')
$$;

comment on function pgq._of_first(text, text[]) is
'Whether somebody has the privileges of the first of these roles: asked before _may.';
