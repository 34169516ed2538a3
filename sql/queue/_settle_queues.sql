create function pgq._settle_queues(storage_class_id bigint, segment integer)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    update pgq.queue as q
    set segment = _settle_queues.segment
    where q.storage_class_id = _settle_queues.storage_class_id;
end
$$;

comment on function pgq._settle_queues(bigint, integer) is
'Points the queues of a storage class to the segment that it moves to; the caller has locked the row
of the class.';
