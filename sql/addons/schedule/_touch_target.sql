create function pgq._touch_target(topic_id bigint, queue_id bigint)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- Update the row without changing a value: a change of access, which locks the row, then waits,
    -- or fails under an older snapshot. Once per transaction (xmin): its later statements would
    -- have to pass each row version that it has made.
    update pgq.topic as t
    set updated_at = t.updated_at
    where t.topic_id = _touch_target.topic_id and t.xmin <> pg_current_xact_id()::xid;

    update pgq.queue as q
    set updated_at = q.updated_at
    where q.queue_id = _touch_target.queue_id and q.xmin <> pg_current_xact_id()::xid;
end
$$;

comment on function pgq._touch_target(bigint, bigint) is
'Has a concurrent change of access to the target of a schedule wait until the transaction ends, or
fail.';
