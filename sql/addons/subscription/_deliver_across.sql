create function pgq._deliver_across(
    topic_id bigint, keys text[], headers jsonb[], partition_ids bigint[],
    stored_partition_ids bigint[], segments integer[], first_offsets bigint[], next_offsets bigint[]
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    held pgq._ended_job[] := pgq._hold_followed(topic_id, keys, headers);
begin
    perform pgq._deliver(
        m.partition_id, m.stored_partition_id, m.segment, m.first_offset, m.next_offset - 1
    )
    from unnest(
        partition_ids, stored_partition_ids, segments, first_offsets, next_offsets
    ) as m (partition_id, stored_partition_id, segment, first_offset, next_offset)
    where m.partition_id is not null;

    perform pgq._free_keys(held);
end
$$;

comment on function pgq._deliver_across(
    bigint, text[], jsonb[], bigint[], bigint[], integer[], bigint[], bigint[]
) is
'Like _deliver, for messages in several partitions of a topic. keys, headers: of all the messages;
the other arrays have an element for each partition, null where it has no messages.';
