create function pgq._measure(
    topic text, has_delivery boolean, segments integer[], stored_ids bigint[], payloads jsonb[],
    keys text[], headers jsonb[], bodies bytea[]
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    largest bigint;
begin
    -- Measure whole arrays first, which takes no time.
    if pgq._has_large(payloads, keys, headers, bodies)
        or has_delivery and exists (
            select
            from pgq.topic as t
            where t.topic = _measure.topic and t.max_message_bytes < 12288
        )
    then
        largest := pgq._check_size(topic, null, null, payloads, keys, headers, bodies);
        perform pgq._note_size(s.segment, s.stored_id, largest)
        from unnest(segments, stored_ids) as s (segment, stored_id)
        where s.stored_id is not null;
    end if;
end
$$;

comment on function pgq._measure(
    text, boolean, integer[], bigint[], jsonb[], text[], jsonb[], bytea[]
) is
'Checks the sizes of a batch where they may matter, see _check_size. has_delivery: of a partition of
the topic. segments, stored_ids: where the messages are stored, for size_bound.';
