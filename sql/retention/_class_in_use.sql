create function pgq._class_in_use(storage_class_id bigint)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    return exists (
        select from pgq.topic as t where t.storage_class_id = _class_in_use.storage_class_id
    ) or exists (
        select from pgq.queue as q where q.storage_class_id = _class_in_use.storage_class_id
    );
end
$$;

comment on function pgq._class_in_use(bigint) is
'Whether a topic or a queue keeps its messages in a storage class.';
