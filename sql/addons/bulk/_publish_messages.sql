create function pgq._publish_messages(
    topic text, queue text, payloads jsonb[], keys text[], headers jsonb[], partition integer,
    delay interval, priority integer, labels text[], bodies bytea[]
)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- write_chunk has checked the sizes, of JSON texts and by the limit at that time.
    perform pgq._act_for(true, own_access => true);
    if topic is not null then
        perform pgq.publish_batch(
            topic => topic, payloads => payloads, keys => keys, headers => headers,
            partition => partition, bodies => bodies
        );
    else
        perform pgq.enqueue_batch(
            queue => queue, payloads => payloads, keys => keys, headers => headers, delay => delay,
            priority => priority, labels => labels, bodies => bodies
        );
    end if;
    perform pgq._act_for(false);
end
$$;

comment on function pgq._publish_messages(
    text, text, jsonb[], text[], jsonb[], integer, interval, integer, text[], bytea[]
) is
'Publishes or enqueues the messages of a chunk.';
