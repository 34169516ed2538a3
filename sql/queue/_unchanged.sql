create function pgq._unchanged(queue_id bigint)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    looked boolean := false;
begin
    -- The id comes first: who changes the queue from now on waits for its transaction where it
    -- matters.
    perform pg_current_xact_id();

    -- The lock raises 40001 where the row has changed since the snapshot. It is undone: overlapping
    -- transactions that kept it would keep others from changing the queue for ever.
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
'True; above READ COMMITTED it raises 40001 when a queue has changed since the snapshot.';
