create function pgq._measure(
    topic text, has_delivery boolean, payloads jsonb[], bodies bytea[], keys text[], headers jsonb[]
)
returns bigint
language plpgsql volatile parallel unsafe
as $$
begin
    -- Measure whole arrays first, which takes no time.
    if greatest(pg_column_size(payloads), pg_column_size(bodies), pg_column_size(keys)) > 12288
        or pg_column_size(headers) > 8192
        or has_delivery and exists (
            select
            from pgq.topic as t
            where t.topic = _measure.topic and t.max_message_bytes < 12288
        )
    then
        return pgq._check_size(topic, null, payloads, bodies, keys, headers);
    end if;
    return null;
end
$$;

comment on function pgq._measure(text, boolean, jsonb[], bytea[], text[], jsonb[]) is
'Checks the sizes of a batch where they may matter (see _check_size): returns the largest one, for
_note_size; null: all are small. has_delivery: of a partition of the topic.';
