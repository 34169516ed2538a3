create function pgq._publish_deferred(
    topic text, payload jsonb, key text, headers jsonb, partition integer, is_large boolean,
    body bytea
)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    -- Take the xid before reading the segment: _close_segments relies on this order.
    xid bigint := txid_current();
    chosen integer;
    own_id bigint;
    leaf integer;
    has_delivery boolean;
    roles text[];
begin
    -- No lock is taken, so any partition will do: spread the transactions over them by xid.
    if partition is null and key is null then
        select p.partition, p.partition_id, p.segment, p.has_delivery, p.publishers
        into chosen, own_id, leaf, has_delivery, roles
        from pgq.partition as p
        where p.topic = _publish_deferred.topic and p.hash_position <= (xid * 633 & 1023)
            and p.deferred
        order by p.hash_position desc
        limit 1;
    else
        select p.partition, p.partition_id, p.segment, p.has_delivery, p.publishers
        into chosen, own_id, leaf, has_delivery, roles
        from pgq.partition as p
        where p.topic = _publish_deferred.topic
            and p.partition = coalesce(
                _publish_deferred.partition,
                (
                    select pgq._key_partition(key, q.partitions)
                    from pgq.partition as q
                    where q.topic = _publish_deferred.topic and q.partition = 0
                )
            )
            and p.deferred;
    end if;

    if chosen is null or (roles is not null and not pgq._may(roles)) then
        return null;
    end if;

    if has_delivery or is_large then
        perform pgq._note_size(
            leaf, own_id,
            pgq._check_size(
                topic, null, null, array[payload], array[key], array[headers], array[body]
            )
        );
    end if;

    if leaf > 15 then
        perform pgq._lock_leaf(leaf);
    end if;
    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    values (
        pgq._staged_id(own_id, xid),
        nextval('pgq.staged_number') << 20,
        pgq._clock(),
        leaf,
        key,
        headers,
        payload,
        body
    );
    if has_delivery then
        perform pgq._announce(own_id);
    end if;

    return chosen;
end
$$;

comment on function pgq._publish_deferred(text, jsonb, text, jsonb, integer, boolean, bytea) is
'Stages a message, which gets its offset later (see _stage_batch), and returns its partition; null
if the caller has no deferred topic of that name. Locks no row.';
