create function pgq._caller()
returns text
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- It does nothing, except where PostgreSQL works on a table for its owner: there it fails, and
    -- nothing else tells. No function that comes here may be called in parallel.
    unlisten pgq_nobody;
    return coalesce(nullif(current_setting('role'), 'none'), session_user);
exception
    when insufficient_privilege then
        return null;
end
$$;

comment on function pgq._caller() is
'The role that calls: the one that was set by SET ROLE, else that of the session; within functions
of pgq current_user is its owner. Null where that would be somebody else: when PostgreSQL, or an
administrator, analyzes, reindexes or refreshes a table, the functions in its indexes run with the
rights of its owner, but the session is the administrator''s.';
