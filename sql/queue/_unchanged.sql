create function pgq._unchanged(queue_id bigint)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    looked boolean := false;
begin
    -- xid first: changes of the queue after this point wait for this transaction where it matters.
    perform pg_current_xact_id();

    -- The lock raises 40001 if the row has changed since the snapshot. It is undone at once:
    -- overlapping transactions that kept it would starve every change of the queue.
    begin
        perform from pgq.queue as q where q.queue_id = _unchanged.queue_id for share skip locked;
        looked := true;
        raise exception 'this lock is not needed any more' using errcode = '55P03';
    exception
        when lock_not_available then
            if not looked then
                raise;
            end if;
    end;
    return true;
end
$$;

comment on function pgq._unchanged(bigint) is
'Returns true; raises 40001 above READ COMMITTED if the queue has changed since the snapshot.';
