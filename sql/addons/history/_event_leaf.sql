create function pgq._event_leaf(queue_id bigint)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    leaf integer;
begin
    -- An old snapshot may name a segment that was emptied since: raise 40001.
    if pgq._keeps_snapshot() then
        perform pgq._unchanged(queue_id);
    end if;

    select q.segment into leaf from pgq.queue as q where q.queue_id = _event_leaf.queue_id;
    perform pgq._lock_leaf(leaf);
    return leaf;
end
$$;

comment on function pgq._event_leaf(bigint) is
'Returns the segment to which the events of a queue are written now; null: there is no such queue.
The caller has a transaction id.';
