create function pgq._note_former_window(
    scope_id bigint,
    window_before interval,
    window_now interval
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if interval_send(_note_former_window.window_before)
        = interval_send(_note_former_window.window_now)
    then
        return;
    end if;

    delete from pgq.former_window as f
    where f.scope_id = _note_former_window.scope_id
        and interval_send(f.idempotency_window) = interval_send(_note_former_window.window_now);

    insert into pgq.former_window (scope_id, idempotency_window, keep, noted_xid)
    values (
        _note_former_window.scope_id,
        _note_former_window.window_before,
        least(_note_former_window.window_before, _note_former_window.window_now),
        pg_current_xact_id()
    );
end
$$;

comment on function pgq._note_former_window(bigint, interval, interval) is
'Notes that a queue or topic, whose row the caller has locked, gets another window: what was noted
by the one before is still to be found.';
