create function pgq._try_part(
    part text, objects int8multirange, started pg_snapshot, horizon xid8, oldest_xid xid8,
    now_at timestamptz
)
returns table (done pgq.cleanup_action[], error_code text, error text)
language plpgsql volatile parallel unsafe rows 1
as $$
declare
    context text;
begin
    done := array(
        select r
        from pgq._clean_part(part, objects, started, horizon, oldest_xid, now_at) as r
    );
    return next;
exception
    when lock_not_available or deadlock_detected then
        done := array[row('busy', part, 1)::pgq.cleanup_action];
        error_code := sqlstate;
        return next;
    -- OTHERS does not catch query_canceled, which ends the call. A full disk is caught: truncation,
    -- a later part, frees space.
    when assert_failure or others then
        get stacked diagnostics context = pg_exception_context;
        done := '{}';
        error_code := sqlstate;
        error := format('%s. %s', sqlerrm, context);
        return next;
end
$$;

comment on function pgq._try_part(text, int8multirange, pg_snapshot, xid8, xid8, timestamptz) is
'Runs a part of cleanup for these objects in a subtransaction, and returns its actions. error_code
is null when it worked; with an error it failed, and without one it met a lock.';
