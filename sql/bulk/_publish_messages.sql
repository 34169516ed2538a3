create function pgq._publish_messages(
    topic text,
    queue text,
    payloads jsonb[],
    keys text[],
    headers jsonb[],
    partition integer,
    delay interval,
    priority integer,
    labels text[],
    bodies bytea[]
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if _publish_messages.topic is not null then
        perform pgq.publish_batch(
            topic => _publish_messages.topic,
            payloads => _publish_messages.payloads,
            keys => _publish_messages.keys,
            headers => _publish_messages.headers,
            partition => _publish_messages.partition,
            bodies => _publish_messages.bodies
        );
    else
        perform pgq.enqueue_batch(
            queue => _publish_messages.queue,
            payloads => _publish_messages.payloads,
            keys => _publish_messages.keys,
            headers => _publish_messages.headers,
            delay => _publish_messages.delay,
            priority => _publish_messages.priority,
            labels => _publish_messages.labels,
            bodies => _publish_messages.bodies
        );
    end if;
end
$$;

comment on function pgq._publish_messages(
    text, text, jsonb[], text[], jsonb[], integer, interval, integer, text[], bytea[]
) is
'Publishes or enqueues the messages of a chunk.';
