create function pgq._publish_staged(target pgq.bulk_write)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    topic_name text;
    queue_name text;
    partition_count integer;
    is_deferred boolean;
    made pgq.staged_chunk;
    keyed record;
    held pgq._ended_job[] := '{}';
begin
    select t.partitions, t.deferred
    into partition_count, is_deferred
    from pgq.topic as t
    where t.topic_id = (_publish_staged.target).topic_id;

    -- In ascending order, as everywhere: the chunks need them in any order.
    perform
    from pgq.partition as p
    where p.topic_id = (_publish_staged.target).topic_id
        and (
            p.partition in (
                select coalesce(c.partition, c.task % partition_count)
                from pgq.staged_chunk as c
                where c.write_id = (_publish_staged.target).write_id
            )
            or exists (
                select
                from pgq.staged_chunk as c
                where c.write_id = (_publish_staged.target).write_id
                    and c.partition is null
                    and c.keys is not null
            )
        )
    order by p.partition
    for no key update;

    -- Only now: a topic whose partitions are locked cannot be dropped and made anew.
    select t.topic
    into topic_name
    from pgq.topic as t
    where t.topic_id = (_publish_staged.target).topic_id;

    select q.queue
    into queue_name
    from pgq.queue as q
    where q.queue_id = (_publish_staged.target).queue_id;

    if num_nonnulls(topic_name, queue_name) = 0 then
        perform pgq._fail_write_lost(
            (_publish_staged.target).write_id, 'Its topic or queue was dropped.'
        );
    end if;

    if queue_name is not null then
        perform pgq._check_staged_delays(
            (_publish_staged.target).write_id, (_publish_staged.target).queue_id
        );
        if (
            select q.ordered
            from pgq.queue as q
            where q.queue_id = (_publish_staged.target).queue_id
        )
        then
            held := pgq._hold_keys(
                (_publish_staged.target).queue_id,
                array(
                    select unnest(c.keys)
                    from pgq.staged_chunk as c
                    where c.write_id = (_publish_staged.target).write_id
                )
            );
        end if;
    elsif exists (
        select
        from pgq.subscription as s
        inner join pgq.queue as q on q.queue_id = s.queue_id
        where s.topic_id = (_publish_staged.target).topic_id
            and q.ordered
    )
    then
        select array_agg(m.key) as keys, array_agg(m.headers) as headers
        into keyed
        from (
            select unnest(c.keys) as key, unnest(c.headers) as headers
            from pgq.staged_chunk as c
            where c.write_id = (_publish_staged.target).write_id
        ) as m
        where m.key is not null;
        held := pgq._hold_followed(
            (_publish_staged.target).topic_id, keyed.keys, keyed.headers
        );
    end if;

    for made in
        select c.*
        from pgq.staged_chunk as c
        where c.write_id = (_publish_staged.target).write_id
            and c.messages > 0
        order by c.task, c.chunk
    loop
        if made.partition is null and made.keys is null then
            made.partition := made.task % partition_count;
        end if;
        if made.packed_bodies is not null then
            perform pgq._publish_packed(
                topic_name,
                made.packed_bodies,
                made.starts,
                made.lengths,
                made.keys,
                made.headers,
                made.partition
            );
        elsif topic_name is not null and (made.partition is null or is_deferred) then
            -- Those without a key keep to the partition of their task, here too.
            perform pgq._publish_spread(
                topic_name,
                made.payloads,
                made.keys,
                made.headers,
                made.partition,
                made.task % partition_count,
                made.bodies
            );
        else
            perform pgq._publish_messages(
                topic_name,
                queue_name,
                made.payloads,
                made.keys,
                made.headers,
                made.partition,
                made.delay,
                made.priority,
                made.labels,
                made.bodies
            );
        end if;
    end loop;

    perform pgq._free_keys(held);

    perform pgq._check_target(
        (_publish_staged.target).write_id,
        (_publish_staged.target).topic_id,
        (_publish_staged.target).queue_id
    );
end
$$;

comment on function pgq._publish_staged(pgq.bulk_write) is
'Publishes what was staged for an atomic write, in the order of tasks and chunks. Raises MQ008, and
22023 when a chunk has a delay that its queue does not allow any more.';
