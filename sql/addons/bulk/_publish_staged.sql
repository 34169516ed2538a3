create function pgq._publish_staged(target pgq.bulk_write)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    id uuid := (target).write_id;
    topic_name text;
    queue_name text;
    partition_count integer;
    is_deferred boolean;
    pointed_at boolean;
    made pgq.staged_chunk;
    piece record;
    runs bigint[] := '{}';
    keyed record;
    held pgq._ended_job[] := '{}';
begin
    select t.partitions, t.deferred
    into partition_count, is_deferred
    from pgq.topic as t
    where t.topic_id = (target).topic_id;

    -- Deadlock: lock all partitions now, in ascending order; the loop below needs them in any
    -- order.
    perform
    from pgq.partition as p
    where p.topic_id = (target).topic_id
        and (
            p.partition in (
                select coalesce(c.partition, c.task % partition_count)
                from pgq.staged_chunk as c
                where c.write_id = id and c.digest is null
            )
            or p.partition in (select r.partition from pgq.staged_run as r where r.write_id = id)
            or exists (
                select
                from pgq.staged_chunk as c
                where c.write_id = id and c.partition is null and c.keys is not null
            )
            or exists (
                select
                from pgq.staged_run as r
                where r.write_id = id and r.partitions is not null
            )
        )
    order by p.partition
    for no key update;

    -- Read names and counts after the locks: a topic whose partitions are locked cannot be dropped,
    -- created again or get more partitions.
    select t.topic, t.partitions
    into topic_name, partition_count
    from pgq.topic as t
    where t.topic_id = (target).topic_id;

    select q.queue into queue_name from pgq.queue as q where q.queue_id = (target).queue_id;

    if num_nonnulls(topic_name, queue_name) = 0 then
        perform pgq._fail_write_lost(id, 'Its topic or queue was dropped.');
    end if;

    pointed_at := exists (select from pgq.subscription as s where s.topic_id = (target).topic_id);
    if queue_name is not null then
        perform pgq._check_staged_delays(id, (target).queue_id);
        if (select q.ordered from pgq.queue as q where q.queue_id = (target).queue_id) then
            held := pgq._hold_keys(
                (target).queue_id,
                array(select unnest(c.keys) from pgq.staged_chunk as c where c.write_id = id)
            );
        end if;
    elsif exists (
        select
        from pgq.subscription as s
        inner join pgq.queue as q on q.queue_id = s.queue_id
        where s.topic_id = (target).topic_id and q.ordered
    ) then
        select array_agg(m.key) as keys, array_agg(m.headers) as headers
        into keyed
        from (
            select unnest(c.keys) as key, unnest(c.headers) as headers
            from pgq.staged_chunk as c
            where c.write_id = id
            union all
            select r.key, r.headers
            from pgq._keys_of_runs(id) as r
        ) as m
        where m.key is not null;
        held := pgq._hold_followed((target).topic_id, keyed.keys, keyed.headers);
    end if;

    -- In the order of tasks. The messages of a task are in extents, in one chunk, or in several
    -- chunks.
    for piece in
        select c.task, c.chunk as number, null::bigint as stored_partition_id,
            null::integer as segment, null::boolean as moved
        from pgq.staged_chunk as c
        where c.write_id = id and c.messages > 0 and c.digest is null
        union all
        select r.task, r.first_chunk, r.stored_partition_id, r.segment,
            r.partitions <> partition_count
        from pgq.staged_run as r
        where r.write_id = id
        order by task, number, stored_partition_id desc
    loop
        if piece.stored_partition_id is not null and piece.moved is not true then
            runs := runs || piece.stored_partition_id;
            continue;
        end if;

        perform pgq._append_all_runs(topic_name, runs, pointed_at);
        runs := '{}';

        if piece.stored_partition_id is not null then
            perform pgq._spread_run(
                topic_name, piece.stored_partition_id, piece.segment, piece.task % partition_count
            );
            continue;
        end if;

        select c.*
        into made
        from pgq.staged_chunk as c
        where c.write_id = id and c.task = piece.task and c.chunk = piece.number;

        if made.partition is null and made.keys is null then
            made.partition := made.task % partition_count;
        end if;
        if made.packed_bodies is not null then
            perform pgq._publish_contents(
                topic_name, made.lengths, null, made.keys, made.headers, made.partition, made.task,
                made.starts, made.packed_bodies
            );
        elsif topic_name is not null and (made.partition is null or is_deferred) then
            -- Messages without a key go to the partition of their task, here too.
            perform pgq._publish_spread(
                topic_name, made.payloads, made.keys, made.headers, made.partition,
                made.task % partition_count, made.bodies
            );
        else
            perform pgq._publish_messages(
                topic_name, queue_name, made.payloads, made.keys, made.headers, made.partition,
                made.delay, made.priority, made.labels, made.bodies
            );
        end if;
    end loop;
    perform pgq._append_all_runs(topic_name, runs, pointed_at);

    perform pgq._free_keys(held);

    perform pgq._check_target((target).write_id, (target).topic_id, (target).queue_id);
end
$$;

comment on function pgq._publish_staged(pgq.bulk_write) is
'Publishes the staged chunks and extents of an atomic write, in the order of tasks and chunks.
Raises MQ008, and 22023 when its queue no longer accepts the delay of a chunk.';
