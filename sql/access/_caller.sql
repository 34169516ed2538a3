create function pgq._caller()
returns text
language sql
stable
parallel safe
as $$
select coalesce(nullif(current_setting('role'), 'none'), session_user)
$$;

comment on function pgq._caller() is
'The role that calls: the one that was set by SET ROLE, else that of the session; within functions
of pgq current_user is its owner.';
