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
            _write_messages.topic,
            _write_messages.payloads,
            _write_messages.bodies,
            _write_messages.keys,
            _write_messages.headers,
            _write_messages.partition
        );
    else
        perform pgq.enqueue_batch(
            _write_messages.queue,
            _write_messages.payloads,
            _write_messages.bodies,
            _write_messages.delay,
            coalesce(_write_messages.priority, 0),
            _write_messages.labels,
            _write_messages.headers,
            _write_messages.keys
        );
    end if;
end
$$;

comment on function pgq._write_messages(
    text, text, jsonb[], bytea[], text[], jsonb[], text[], integer, integer, interval
) is
'Publishes or enqueues the messages of a chunk.';
