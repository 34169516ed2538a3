create function pgq._write_floor(state pgq.queue_floor, old_seq bigint)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- Delete one old row for each new one, by its exact seq: no scan over dead rows.
    if not pgq._keeps_snapshot() then
        insert into pgq.queue_floor values (state.*);
        delete from pgq.queue_floor as f
        where f.queue_id = state.queue_id and f.label = state.label and f.seq = old_seq;
        return;
    end if;

    begin
        insert into pgq.queue_floor values (state.*);
        delete from pgq.queue_floor as f
        where f.queue_id = state.queue_id and f.label = state.label and f.seq = old_seq;
    exception
        -- Another transaction has raised them since the snapshot. Floors are optional.
        when unique_violation or serialization_failure then
            null;
    end;
end
$$;

comment on function pgq._write_floor(pgq.queue_floor, bigint) is
'Stores floors in place of the row old_seq. Under REPEATABLE READ nothing is stored where another
transaction has stored later ones. Only there it has a subtransaction: past 64 in a transaction the
snapshots of all other sessions get slow.';
