create function pgq._write_messages(
    topic text,
    queue text,
    payloads jsonb[],
    bodies bytea[],
    keys text[],
    headers jsonb[],
    labels text[],
    partition integer,
    priority integer,
    delay interval
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if _write_messages.topic is not null then
        perform pgq.publish_batch(
            topic => _write_messages.topic,
            payloads => _write_messages.payloads,
            keys => _write_messages.keys,
            headers => _write_messages.headers,
            partition => _write_messages.partition,
            bodies => _write_messages.bodies
        );
    else
        perform pgq.enqueue_batch(
            queue => _write_messages.queue,
            payloads => _write_messages.payloads,
            keys => _write_messages.keys,
            headers => _write_messages.headers,
            delay => _write_messages.delay,
            priority => _write_messages.priority,
            labels => _write_messages.labels,
            bodies => _write_messages.bodies
        );
    end if;
end
$$;

comment on function pgq._write_messages(
    text, text, jsonb[], bytea[], text[], jsonb[], text[], integer, integer, interval
) is
'Publishes or enqueues the messages of a chunk.';
