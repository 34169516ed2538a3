create function pgq._log_figures(moment timestamptz)
returns table (
    topic text,
    consumer_group text,
    published numeric,
    kept numeric,
    processed numeric,
    failing bigint,
    partitions integer[],
    lags bigint[],
    ages double precision[]
)
language plpgsql stable parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set enable_indexonlyscan = off
set jit = off
set enable_nestloop = off
set plan_cache_mode = force_custom_plan
as $$
declare
    -- The topics that the caller may see.
    shown_ids bigint[];
    shown_names text[];
    target record;
    more_offsets bigint[];
    -- For each partition: its topic, ids, oldest offset kept, segment, the first offset there, and
    -- its newest offset.
    newest_topics bigint[] := '{}';
    newest_ids bigint[] := '{}';
    newest_stored_ids bigint[] := '{}';
    newest_kept bigint[] := '{}';
    newest_segments integer[] := '{}';
    newest_firsts bigint[] := '{}';
    newest_offsets bigint[] := '{}';
    -- For each group and partition: what it reads next.
    group_ids bigint[];
    group_partitions integer[];
    next_offsets bigint[];
    attempts integer[];
    last_offsets bigint[];
    -- Where that message is stored, and its publish time where segment_range gives it (one for all
    -- messages of an extent).
    due_leaves integer[];
    due_ids bigint[];
    due_offsets bigint[];
    run_times timestamptz[];
    due_times text;
begin
    with topics as (
        select t.topic_id, t.topic
        from pgq.topic as t
        where not t.restricted
            or t.topic_id in (select unnest(pgq._visible('topic', 'monitor')))
    )

    select array_agg(t.topic_id), array_agg(t.topic)
    into shown_ids, shown_names
    from topics as t;

    -- Leaf by leaf: a plan through the parent would lock every leaf. A lookup examines a page of
    -- index entries: a second condition would be tested twice at each of them, and an index-only
    -- scan would copy them all.
    for target in
        with ranges as (
            select r.partition_id, min(r.first_offset) as first_offset
            from pgq.segment_range as r
            group by r.partition_id
        )

        select
            p.segment,
            array_agg(p.topic_id) as topics,
            array_agg(p.partition_id) as ids,
            array_agg(p.stored_partition_id) as stored_ids,
            array_agg(r.first_offset) as kept,
            array_agg(p.segment_first_offset) as firsts
        from unnest(shown_ids) as t (topic_id)
        inner join pgq.partition as p on p.topic_id = t.topic_id
        left join ranges as r on r.partition_id = p.partition_id
        group by p.segment
    loop
        execute format(
            'select
                array_agg(
                    greatest(
                        (
                            select m.log_offset
                            from pgq.message_%s as m
                            where m.partition_id = w.partition_id
                            order by m.log_offset desc
                            limit 1
                        ),
                        w.first_offset - 1
                    )
                    order by w.number
                )
            from unnest($1, $2) with ordinality as w (partition_id, first_offset, number)',
            target.segment
        )
        into more_offsets
        using target.stored_ids, target.firsts;
        newest_topics := newest_topics || target.topics;
        newest_ids := newest_ids || target.ids;
        newest_stored_ids := newest_stored_ids || target.stored_ids;
        newest_kept := newest_kept || target.kept;
        newest_firsts := newest_firsts || target.firsts;
        newest_segments := newest_segments
            || array_fill(target.segment, array[cardinality(target.ids)]);
        newest_offsets := newest_offsets || more_offsets;
    end loop;

    return query
    select
        t.topic,
        null::text,
        w.published,
        w.kept,
        null::numeric,
        null::bigint,
        null::integer[],
        null::bigint[],
        null::double precision[]
    from (
        select
            n.topic_id,
            sum(n.last_offset) as published,
            sum(n.last_offset - n.kept_from + 1) as kept
        from unnest(newest_topics, newest_kept, newest_offsets)
            as n (topic_id, kept_from, last_offset)
        group by n.topic_id
    ) as w
    inner join unnest(shown_ids, shown_names) as t (topic_id, topic) on t.topic_id = w.topic_id;

    -- The next offset of each group and partition, and where it is stored: segment_range lists the
    -- segments that a partition has left.
    select
        array_agg(l.group_id),
        array_agg(l.partition),
        array_agg(j.next_offset),
        array_agg(n.last_offset),
        array_agg(coalesce(j.attempt, 0)),
        array_agg(
            case
                when j.next_offset > n.last_offset then null
                when j.next_offset >= n.first_offset then n.segment
                else o.segment
            end
        ),
        array_agg(coalesce(o.stored_id, n.stored_id)),
        array_agg(coalesce(o.stored_offset, j.next_offset)),
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
    from unnest(
        newest_ids,
        newest_stored_ids,
        newest_kept,
        newest_segments,
        newest_firsts,
        newest_offsets
    ) as n (partition_id, stored_id, kept_from, segment, first_offset, last_offset)
    inner join pgq.group_partition as l on l.partition_id = n.partition_id
    cross join lateral (
        select k.next_offset, (k.attempts).attempt as attempt
        from pgq.group_position as k
        where k.group_id = l.group_id
            and k.partition = l.partition
        order by k.seq desc
        limit 1
    ) as j
    left join lateral (
        select
            r.segment,
            r.stored_partition_id as stored_id,
            greatest(j.next_offset, r.first_offset) - r.shift as stored_offset,
            r.published_at
        from pgq.segment_range as r
        where j.next_offset < n.first_offset
            and j.next_offset <= n.last_offset
            and r.partition_id = n.partition_id
            and r.first_offset <= greatest(j.next_offset, n.kept_from)
        order by r.first_offset desc
        limit 1
    ) as o on true;

    -- Read each message from its own leaf, all in one statement, which saves joining the results.
    select
        string_agg(
            format(
                'when %s then (
                    select m.published_at
                    from pgq.message_%s as m
                    where m.partition_id = p.stored_id
                        and m.log_offset = p.stored_offset
                )',
                w.segment,
                w.segment
            ),
            ' '
        )
    into due_times
    from (
        select distinct u.segment
        from unnest(due_leaves, run_times) as u (segment, published_at)
        where u.segment is not null
            and u.published_at is null
    ) as w;

    return query execute format(
        'select
            t.topic,
            g.consumer_group,
            null::numeric,
            null::numeric,
            w.processed,
            case when g.max_attempts is not null then w.failing end,
            w.partitions,
            w.lags,
            w.ages
        from (
            select
                p.group_id,
                sum(p.next_offset - 1) as processed,
                count(*) filter (where p.attempt > 0) as failing,
                array_agg(p.partition) as partitions,
                array_agg(greatest(p.last_offset - p.next_offset + 1, 0)) as lags,
                array_agg(
                    coalesce(
                        greatest(
                            date_part(''epoch'', $11 - coalesce(p.published_at, %s)),
                            0
                        ),
                        0
                    )
                ) as ages
            from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9) as p (
                group_id,
                partition,
                next_offset,
                last_offset,
                attempt,
                segment,
                stored_id,
                stored_offset,
                published_at
            )
            group by p.group_id
        ) as w
        inner join pgq.consumer_group as g on g.group_id = w.group_id
        inner join unnest($10, $12) as t (topic_id, topic) on t.topic_id = g.topic_id',
        coalesce('case p.segment ' || due_times || ' end', 'null')
    )
    using
        group_ids,
        group_partitions,
        next_offsets,
        last_offsets,
        attempts,
        due_leaves,
        due_ids,
        due_offsets,
        run_times,
        shown_ids,
        moment,
        shown_names;
end
$$;

comment on function pgq._log_figures(timestamptz) is
'The figures of topics, a row each, and of consumer groups, with their partitions in arrays.
It reads the newest message of each partition, the newest position of each group and partition, and
the message at that position; it counts no messages.';
