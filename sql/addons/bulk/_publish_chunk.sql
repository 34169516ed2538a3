create function pgq._publish_chunk(
    target pgq._write_target, write_id uuid, task integer, chunk integer, lengths integer[],
    packed_payloads bytea, keys text[], headers jsonb[], partition integer, delay interval,
    priority integer, labels text[], starts integer[], largest bigint, packed_bodies bytea
)
returns boolean
language plpgsql volatile parallel unsafe
as $$
begin
    -- The digest covers everything that the writer says about the messages, without starts: they
    -- follow from lengths.
    if not pgq._note_chunk(
        write_id, target, task, chunk, cardinality(lengths),
        hash_record_extended(
            row(
                lengths,
                packed_payloads,
                keys,
                headers,
                partition,
                delay,
                coalesce(priority, 0),
                labels,
                packed_bodies
            ),
            0
        )
    ) then
        return false;
    end if;

    if target.topic is not null and not pgq._keeps_snapshot() then
        perform pgq._publish_contents(
            target.topic, lengths, packed_payloads, keys, headers, partition, task,
            pgq._check_contents(lengths, packed_payloads, keys, headers, starts, packed_bodies),
            largest, packed_bodies
        );
    else
        -- starts is not used on this path, but refuse bad values all the same.
        if starts is not null then
            perform pgq._check_contents(
                lengths, packed_payloads, keys, headers, starts, packed_bodies
            );
        end if;
        perform pgq._publish_messages(
            target.topic, target.queue, pgq._unpack_payloads(packed_payloads, lengths), keys,
            headers, partition, delay, priority, labels, pgq._unpack(packed_bodies, lengths)
        );
    end if;

    perform pgq._check_target(write_id, target.topic_id, target.queue_id);
    return true;
end
$$;

comment on function pgq._publish_chunk(
    pgq._write_target, uuid, integer, integer, integer[], bytea, text[], jsonb[], integer, interval,
    integer, text[], integer[], bigint, bytea
) is
'Publishes a chunk of a write that is not atomic; false when it was published before.';
