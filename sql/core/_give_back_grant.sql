create function pgq._give_back_grant()
returns trigger
language plpgsql volatile parallel unsafe
as $$
begin
    begin
        execute new.statement;
    exception
        when undefined_function or undefined_table or undefined_column then
            -- The object does not exist in the version that the upgrade reached.
            null;
    end;

    delete from pgq.kept_grant as k where k.statement = new.statement;

    return null;
end
$$;

comment on function pgq._give_back_grant() is
'Executes a GRANT that an upgrade has saved in kept_grant.';
