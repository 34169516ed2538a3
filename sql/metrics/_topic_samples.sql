create function pgq._topic_samples(moment timestamptz)
returns setof pgq._sample
language plpgsql
stable
parallel safe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set enable_nestloop = off
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    -- Who is shown: topics by their ids.
    shown_ids bigint[];
    shown_names text[];
    target record;
    more_ids bigint[];
    more_offsets bigint[];
    more_times timestamptz[];
    newest_ids bigint[] := '{}';
    newest_offsets bigint[] := '{}';
    newest_times timestamptz[] := '{}';
    group_ids bigint[];
    group_partitions integer[];
    next_offsets bigint[];
    last_offsets bigint[];
    attempts integer[];
    due_leaves integer[];
    due_ids bigint[];
    due_offsets bigint[];
    run_times timestamptz[];
    known_numbers bigint[] := '{}';
    known_times timestamptz[] := '{}';
begin
    with topics as (
        select t.topic_id, t.topic
        from pgq.topic as t
        where not t.restricted
            or t.topic_id = any((select pgq._visible('topic', 'monitor'))::bigint[])
    )

    select array_agg(t.topic_id), array_agg(t.topic)
    into shown_ids, shown_names
    from topics as t;

    -- Leaf by leaf: a plan that goes through the parent would lock all leaves.
    for target in
        select
            p.segment,
            array_agg(p.partition_id) as ids,
            array_agg(p.segment_first_offset) as offsets
        from unnest(shown_ids) as t (topic_id)
        inner join pgq.partition as p on p.topic_id = t.topic_id
        group by p.segment
    loop
        execute format(
            'select array_agg(w.partition_id), array_agg(n.log_offset), array_agg(n.published_at)
            from unnest($1, $2) as w (partition_id, first_offset)
            cross join lateral (
                select m.log_offset, m.published_at
                from pgq.message_%s as m
                where m.partition_id = w.partition_id
                    and m.log_offset >= w.first_offset
                order by m.log_offset desc
                limit 1
            ) as n',
            target.segment
        )
        into more_ids, more_offsets, more_times
        using target.ids, target.offsets;
        newest_ids := newest_ids || more_ids;
        newest_offsets := newest_offsets || more_offsets;
        newest_times := newest_times || more_times;
    end loop;

    return query
    with sums as (
        select
            p.topic_id,
            sum(p.last_offset) as published,
            sum(p.last_offset - p.first_offset + 1) as kept,
            max(p.published_at) as published_at
        from (
            select
                p.topic_id,
                coalesce(n.log_offset, p.segment_first_offset - 1) as last_offset,
                f.first_offset,
                n.published_at
            from pgq.partition as p
            cross join lateral (
                select r.first_offset
                from pgq.segment_range as r
                where r.partition_id = p.partition_id
                order by r.first_offset
                limit 1
            ) as f
            left join unnest(newest_ids, newest_offsets, newest_times)
                as n (partition_id, log_offset, published_at)
                on n.partition_id = p.partition_id
        ) as p
        group by p.topic_id
    )

    select s.name, jsonb_build_object('topic', t.topic), s.value::double precision
    from unnest(shown_ids, shown_names) as t (topic_id, topic)
    inner join sums as p on p.topic_id = t.topic_id
    cross join lateral (
        values
        ('pgq_topic_published_total', p.published),
        ('pgq_topic_messages', p.kept),
        ('pgq_topic_last_published_timestamp_seconds', extract(epoch from p.published_at))
    ) as s (name, value)
    where s.value is not null;

    -- What each group reads next, and where that is stored. A partition that has left its segment
    -- says so in segment_range.
    select
        array_agg(g.group_id),
        array_agg(l.partition),
        array_agg(j.next_offset),
        array_agg(n.last_offset),
        array_agg(coalesce(j.attempt, 0)),
        array_agg(case when j.next_offset <= n.last_offset then o.segment end),
        array_agg(o.stored_id),
        array_agg(o.stored_offset),
        array_agg(o.published_at)
    into
        group_ids,
        group_partitions,
        next_offsets,
        last_offsets,
        attempts,
        due_leaves,
        due_ids,
        due_offsets,
        run_times
    from unnest(shown_ids) as t (topic_id)
    inner join pgq.consumer_group as g on g.topic_id = t.topic_id
    inner join pgq.group_partition as l on l.group_id = g.group_id
    inner join pgq.partition as p on p.partition_id = l.partition_id
    cross join lateral (
        select k.next_offset, (k.attempts).attempt as attempt
        from pgq.group_position as k
        where k.group_id = l.group_id
            and k.partition = l.partition
        order by k.seq desc
        limit 1
    ) as j
    left join unnest(newest_ids, newest_offsets) as w (partition_id, log_offset)
        on w.partition_id = p.partition_id
    cross join lateral (
        select coalesce(w.log_offset, p.segment_first_offset - 1) as last_offset
    ) as n
    left join lateral (
        select
            p.segment,
            p.partition_id as stored_id,
            j.next_offset as stored_offset,
            null::timestamptz as published_at
        where j.next_offset >= p.segment_first_offset
        union all
        (
            select
                r.segment,
                r.stored_partition_id,
                greatest(j.next_offset, r.first_offset) - r.shift,
                r.published_at
            from pgq.segment_range as r
            where j.next_offset < p.segment_first_offset
                and r.partition_id = p.partition_id
                and r.first_offset <= greatest(
                    j.next_offset,
                    (
                        select f.first_offset
                        from pgq.segment_range as f
                        where f.partition_id = p.partition_id
                        order by f.first_offset
                        limit 1
                    )
                )
            order by r.first_offset desc
            limit 1
        )
    ) as o on j.next_offset <= n.last_offset;

    for target in
        select
            w.segment,
            array_agg(w.number) as numbers,
            array_agg(w.stored_id) as ids,
            array_agg(w.stored_offset) as offsets
        from unnest(due_leaves, due_ids, due_offsets, run_times) with ordinality
            as w (segment, stored_id, stored_offset, published_at, number)
        where w.segment is not null
            and w.published_at is null
        group by w.segment
    loop
        execute format(
            'select array_agg(w.number), array_agg(m.published_at)
            from unnest($1, $2, $3) as w (number, stored_id, stored_offset)
            cross join lateral (
                select m.published_at
                from pgq.message_%s as m
                where m.partition_id = w.stored_id
                    and m.log_offset = w.stored_offset
                limit 1
            ) as m',
            target.segment
        )
        into more_ids, more_times
        using target.numbers, target.ids, target.offsets;
        known_numbers := known_numbers || more_ids;
        known_times := known_times || more_times;
    end loop;

    return query
    with positions as (
        select
            w.group_id,
            w.partition,
            w.next_offset,
            greatest(w.last_offset - w.next_offset + 1, 0) as lag,
            w.attempt,
            coalesce(w.published_at, k.published_at) as published_at
        from unnest(
            group_ids, group_partitions, next_offsets, last_offsets, attempts, run_times
        ) with ordinality
            as w (group_id, partition, next_offset, last_offset, attempt, published_at, number)
        left join unnest(known_numbers, known_times) as k (number, published_at)
            on k.number = w.number
    ),

    groups as (
        select g.group_id, t.topic, g.consumer_group, g.max_attempts
        from unnest(shown_ids, shown_names) as t (topic_id, topic)
        inner join pgq.consumer_group as g on g.topic_id = t.topic_id
    )

    select s.name, l.labels, s.value
    from groups as g
    inner join positions as w on w.group_id = g.group_id
    cross join lateral (
        select jsonb_build_object(
            'topic', g.topic,
            'consumer_group', g.consumer_group,
            'partition', w.partition::text
        ) as labels
        offset 0
    ) as l
    cross join lateral (
        values
        ('pgq_group_lag_messages', w.lag::double precision),
        (
            'pgq_group_lag_seconds',
            coalesce(
                greatest(extract(epoch from _topic_samples.moment - w.published_at), 0), 0
            )::double precision
        )
    ) as s (name, value)
    union all
    select
        s.name,
        jsonb_build_object('topic', g.topic, 'consumer_group', g.consumer_group),
        s.value::double precision
    from (
        select
            w.group_id,
            sum(w.next_offset - 1) as processed,
            count(*) filter (where w.attempt > 0) as failing
        from positions as w
        group by w.group_id
    ) as w
    inner join groups as g on g.group_id = w.group_id
    cross join lateral (
        values
        ('pgq_group_processed_messages', w.processed),
        (
            'pgq_group_failing_partitions',
            case when g.max_attempts is not null then w.failing end
        )
    ) as s (name, value)
    where s.value is not null;
end
$$;

comment on function pgq._topic_samples(timestamptz) is
'The figures of topics and consumer groups. It reads the newest message of each partition, the
newest position of each group and partition, and the message that stands there; it counts nothing.';
