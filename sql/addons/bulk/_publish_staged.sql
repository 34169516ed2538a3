create function pgq._publish_staged(target pgq.bulk_write)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    id uuid := target.write_id;
    to_topic pgq.topic;
    to_queue text;
    has_subscriptions boolean;
    held pgq._ended_job[];
    extents bigint[] := '{}';
    piece record;
    made pgq.staged_chunk;
begin
    -- Deadlock: lock all partitions now; the loop below needs them in any order.
    perform pgq._lock_staged(target);

    -- Read names and counts after the locks: a topic whose partitions are locked cannot be dropped,
    -- created again or get more partitions.
    select t.* into to_topic from pgq.topic as t where t.topic_id = target.topic_id;
    select q.queue into to_queue from pgq.queue as q where q.queue_id = target.queue_id;
    if to_topic.topic is null and to_queue is null then
        perform pgq._fail_write_lost(id, 'Its topic or queue was dropped.');
    end if;

    has_subscriptions := exists (
        select from pgq.subscription as s where s.topic_id = target.topic_id
    );
    perform pgq._check_staged_delays(id, target.queue_id);
    held := pgq._hold_staged(target);

    -- In the order of tasks. The messages of a task are in extents, in one chunk, or in several
    -- chunks. moved: the extent was divided by key among fewer partitions.
    for piece in
        select c.task, c.chunk as chunk_number, null::bigint as stored_id, null::integer as segment,
            false as moved
        from pgq.staged_chunk as c
        where c.write_id = id and c.messages > 0 and c.digest is null
        union all
        select r.task, r.first_chunk, r.stored_partition_id, r.segment,
            r.partitions is not null and r.partitions <> to_topic.partitions
        from pgq.staged_extent as r
        where r.write_id = id
        order by task, chunk_number, stored_id desc
    loop
        if piece.stored_id is not null and not piece.moved then
            extents := extents || piece.stored_id;
            continue;
        end if;

        perform pgq._append_all_extents(to_topic.topic, extents, has_subscriptions);
        extents := '{}';

        if piece.moved then
            perform pgq._act_for(true, own_access => true);
            perform pgq._spread_extent(
                to_topic.topic, piece.stored_id, piece.segment, piece.task % to_topic.partitions
            );
            perform pgq._act_for(false);
            continue;
        end if;

        select c.*
        into made
        from pgq.staged_chunk as c
        where c.write_id = id and c.task = piece.task and c.chunk = piece.chunk_number;

        if made.partition is null and made.keys is null then
            made.partition := made.task % to_topic.partitions;
        end if;
        if made.packed_bodies is not null then
            perform pgq._publish_contents(
                to_topic.topic, made.lengths, null, made.keys, made.headers, made.partition,
                made.task, made.starts, pgq._largest(made.lengths, made.keys, made.headers),
                made.packed_bodies
            );
        elsif to_queue is null and (made.partition is null or to_topic.deferred) then
            -- Messages without a key go to the partition of their task, here too.
            perform pgq._act_for(true, own_access => true);
            perform pgq._publish_spread(
                to_topic.topic, made.payloads, made.keys, made.headers, made.partition,
                made.task % to_topic.partitions, made.bodies
            );
            perform pgq._act_for(false);
        else
            perform pgq._publish_messages(
                to_topic.topic, to_queue, made.payloads, made.keys, made.headers, made.partition,
                made.delay, made.priority, made.labels, made.bodies
            );
        end if;
    end loop;

    perform pgq._append_all_extents(to_topic.topic, extents, has_subscriptions);
    perform pgq._free_keys(held);
end
$$;

comment on function pgq._publish_staged(pgq.bulk_write) is
'Publishes the staged chunks and extents of an atomic write, in the order of tasks and chunks; the
caller then calls _check_target. Raises MQ008, and 22023 when its queue no longer accepts the delay
of a chunk.';
