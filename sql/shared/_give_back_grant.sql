create function pgq._give_back_grant()
returns trigger
language plpgsql volatile parallel unsafe
as $$
begin
    begin
        execute new.statement;
    exception
        when undefined_function or undefined_table or undefined_column then
            -- It is gone in the version that was reached in the end.
            null;
    end;

    delete from pgq.kept_grant as k where k.statement = new.statement;

    return null;
end
$$;

comment on function pgq._give_back_grant() is
'Grants what an upgrade noted in kept_grant.';
