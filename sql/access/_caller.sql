create function pgq._caller()
returns text
language plpgsql volatile parallel unsafe
as $$
begin
    -- Where PostgreSQL works on a table for its owner, deallocate is refused before the statement
    -- is looked for, and nothing else tells. unlisten would be cheaper, but a session that has
    -- listened prepares no transaction after it. No function that comes here may be called in
    -- parallel.
    begin
        deallocate "pgq: who calls";
    exception
        when invalid_sql_statement_name then
            null;
        when insufficient_privilege then
            return null;
    end;

    return coalesce(nullif(current_setting('role'), 'none'), session_user);
end
$$;

comment on function pgq._caller() is
'The role that calls: the one that was set by SET ROLE, else that of the session; within functions
of pgq current_user is its owner. Null where that would be somebody else: when PostgreSQL, or an
administrator, analyzes, reindexes or refreshes a table, the functions in its indexes run with the
rights of its owner, but the session is the administrator''s.';
