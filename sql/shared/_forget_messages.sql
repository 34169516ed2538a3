create function pgq._forget_messages(partition_ids bigint[], storage_class_id bigint)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- Where there is a retention, the messages go with their segment. Where there is none, they
    -- would stay for ever.
    delete from pgq.message as m
    using pgq.storage_class as c
    where c.storage_class_id = _forget_messages.storage_class_id
        and c.retention is null
        and m.partition_id = any(_forget_messages.partition_ids);
end
$$;

comment on function pgq._forget_messages(bigint[], bigint) is
'Removes the messages of partitions that are being dropped, if nothing else ever would.';
