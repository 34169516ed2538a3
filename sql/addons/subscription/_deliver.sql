create function pgq._deliver(
    partition_id bigint, stored_partition_id bigint, segment integer, first_offset bigint,
    last_offset bigint
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    matched bigint[];
begin
    -- Delivered when this transaction commits.
    perform pg_notify('pgq_topic', case when t.restricted then '' else t.topic end)
    from pgq.partition as p
    inner join pgq.topic as t on t.topic_id = p.topic_id
    where p.partition_id = _deliver.partition_id and t.notify;

    for target in
        select
            s.filter, s.routing_regex, q.queue_id, q.restricted, q.queue, q.notify, q.ordered,
            -- Transaction id first, then the lock on the queue, then the clock: the floor relies on
            -- it. The caller's inserts have assigned the id, and this statement has locked queue.
            pgq._clock() + q.delay as visible_at, pgq._clock() + q.job_ttl as expires_at
        from pgq.partition as p
        inner join pgq.subscription as s on s.topic_id = p.topic_id
        inner join pgq.queue as q on q.queue_id = s.queue_id
        where p.partition_id = _deliver.partition_id
        order by q.queue_id
    loop
        if target.filter is null and target.routing_regex is null then
            matched := array(select generate_series(first_offset, last_offset));
        else
            -- for the first 48 leaves: _deliver.segment
            select array_agg(m.log_offset order by m.log_offset)
            from pgq.message_{leaf} as m
            where m.partition_id = {stored_partition_id}
                and m.log_offset between {first_offset} and {last_offset}
                and pgq._matches(m.headers, {target.filter}, {target.routing_regex})
            into matched;
            -- end of the leaf

            continue when matched is null;
        end if;

        -- From 4 jobs on, one batch row writes about a quarter of the write-ahead log of a row for
        -- each job.
        if target.ordered then
            perform pgq._point_ordered(
                target.queue_id, stored_partition_id, segment, matched, target.visible_at,
                target.expires_at
            );
        elsif cardinality(matched) < 4 then
            perform pgq._point_jobs(
                target.queue_id, stored_partition_id, segment, matched, target.visible_at,
                target.expires_at
            );
        else
            perform pgq._add_extents(
                target.queue_id, stored_partition_id, segment, matched, target.visible_at,
                target.expires_at
            );
        end if;

        if target.notify then
            perform pg_notify(
                'pgq_queue', case when target.restricted then '' else target.queue end
            );
        end if;
    end loop;
end
$$;

comment on function pgq._deliver(bigint, bigint, integer, bigint, bigint) is
'Delivers messages that the caller has just stored in a partition, whose row it has locked: notifies
the consumers of the topic, and adds jobs that point at the messages to each queue whose
subscription matches.';
