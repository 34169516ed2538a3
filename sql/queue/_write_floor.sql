create function pgq._write_floor(state pgq.queue_floor)
returns boolean
language plpgsql volatile parallel unsafe
as $$
begin
    insert into pgq.queue_floor values (state.*);
    return true;
exception
    -- REPEATABLE READ: another transaction has raised them since the snapshot.
    when unique_violation then
        return false;
end
$$;

comment on function pgq._write_floor(pgq.queue_floor) is
'Stores floors; false: another transaction has stored later ones.';
