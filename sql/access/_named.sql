create function pgq._named(roles text[])
returns boolean
language sql
stable
parallel safe
as $$
select pgq._caller() collate "C" = any(roles)
$$;

comment on function pgq._named(text[]) is
'Whether the caller is one of these roles: asked first, since it takes less time than _may.';
