create function pgq._publish_guarded(
    topic text, payload jsonb, key text, headers jsonb, partition integer, idempotency_key text,
    body bytea
)
returns setof pgq.publish_result
language plpgsql volatile parallel unsafe rows 1
as $$
declare
    payloads jsonb[];
    bodies bytea[];
begin
    if payload is not null then
        payloads := array[payload];
    else
        bodies := array[body];
    end if;

    if idempotency_key is not null then
        perform pgq._check_idempotency_keys('idempotency_key', array[idempotency_key], 1);
        return query
        select k.partition, k.log_offset, k.duplicate
        from pgq._publish_keyed(
            topic, payloads, array[key], array[headers], partition, array[idempotency_key], bodies
        ) as k;
        return;
    end if;

    return query
    select b.partition, b.first_offset, b.duplicate
    from pgq.publish_batch(
        topic => topic, payloads => payloads, keys => array[key],
        headers => array[headers], partition => partition, bodies => bodies
    ) as b;
end
$$;

comment on function pgq._publish_guarded(text, jsonb, text, jsonb, integer, text, bytea) is
'Publishes one message as a batch of one: with an idempotency_key, above READ COMMITTED, or to a
topic with subscriptions or notifications.';
