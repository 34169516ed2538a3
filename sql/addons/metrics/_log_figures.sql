create function pgq._log_figures(now_at timestamptz)
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
    newest pgq._newest_offset[];
    due pgq._group_offset[];
    due_times text;
begin
    select array_agg(t.topic_id), array_agg(t.topic)
    into shown_ids, shown_names
    from pgq.topic as t
    where not t.restricted
        or t.topic_id in (select unnest(pgq._visible('topic', 'monitor')));

    newest := array(select n from pgq._newest_offsets(shown_ids) as n);

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
        from unnest(newest) as n
        group by n.topic_id
    ) as w
    inner join unnest(shown_ids, shown_names) as t (topic_id, topic) on t.topic_id = w.topic_id;

    -- segment_range lists the segments that a partition has left.
    due := array(
        select
            row(
                l.group_id,
                l.partition,
                j.next_offset,
                n.last_offset,
                coalesce(j.attempt, 0),
                case
                    when j.next_offset > n.last_offset then null
                    when j.next_offset >= n.first_offset then n.segment
                    else o.segment
                end,
                coalesce(o.stored_id, n.stored_id),
                coalesce(o.stored_offset, j.next_offset),
                o.published_at
            )::pgq._group_offset
        from unnest(newest) as n
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
        ) as o on true
    );

    -- Read each message from its own leaf, all in one statement, which saves joining the results.
    select
        string_agg(
            format(
                'when %1$s then (
                    select m.published_at
                    from pgq.message_%1$s as m
                    where m.partition_id = p.stored_id
                        and m.log_offset = p.stored_offset
                )',
                w.segment
            ),
            ' '
        )
    into due_times
    from (
        select distinct p.segment
        from unnest(due) as p
        where p.segment is not null
            and p.published_at is null
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
                    greatest(date_part(''epoch'', $2 - coalesce(p.published_at, %s)), 0)
                ) as ages
            from unnest($1) as p
            group by p.group_id
        ) as w
        inner join pgq.consumer_group as g on g.group_id = w.group_id
        inner join unnest($3, $4) as t (topic_id, topic) on t.topic_id = g.topic_id',
        coalesce('case p.segment ' || due_times || ' end', 'null')
    )
    using due, now_at, shown_ids, shown_names;
end
$$;

comment on function pgq._log_figures(timestamptz) is
'The figures of topics, a row each, and of consumer groups, with their partitions in arrays.
It reads the newest message of each partition, the newest position of each group and partition, and
the message at that position; it counts no messages.';
