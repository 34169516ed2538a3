create function pgq._caller()
returns text
language plpgsql volatile parallel unsafe
as $$
begin
    -- In a security-restricted operation (PostgreSQL maintains a table with the rights of its
    -- owner), deallocate is refused before the statement is looked up; no other test shows this.
    -- unlisten would be cheaper, but after it a session that has listened cannot prepare a
    -- transaction. Parallel plans must not contain deallocate: every function that calls this is
    -- parallel unsafe.
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
'The role that calls: the one set by SET ROLE, else the session user; inside functions of pgq,
current_user is the owner of pgq. Null in a security-restricted operation: during ANALYZE, REINDEX
or REFRESH, functions in indexes run with the rights of the table''s owner, but the session user is
the administrator.';
