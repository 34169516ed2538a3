create function pgq._staged_samples(now_at timestamptz)
returns setof pgq._sample
language plpgsql stable parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    target record;
    more bigint;
    since timestamptz;
    topics text[] := '{}';
    counts bigint[] := '{}';
    times timestamptz[] := '{}';
begin
    for target in
        select t.topic, p.partition_id, s.segment
        from pgq.topic as t
        inner join pgq.partition as p on p.topic_id = t.topic_id
        cross join lateral unnest(p.left_segments || p.segment) as s (segment)
        where t.deferred
            and (
                not t.restricted
                or t.topic_id in (select unnest(pgq._visible('topic', 'monitor')))
            )
    loop
        -- The index order begins with the transaction id, so the first row is among the oldest.
        execute format(
            'select count(*), (array_agg(m.published_at))[1]
            from (
                select m.published_at
                from pgq.message_%s as m
                where m.partition_id >= $1
                    and m.partition_id < $2
                order by m.partition_id, m.log_offset
                limit 1000
            ) as m',
            target.segment
        )
        into more, since
        using pgq._staged_id(target.partition_id, 0), pgq._staged_id(target.partition_id + 1, 0);
        topics := topics || target.topic;
        counts := counts || more;
        times := times || since;
    end loop;

    return query
    select s.name, jsonb_build_object('topic', w.topic), s.value::double precision
    from (
        select w.topic, sum(w.staged) as staged, min(w.since) as since
        from unnest(topics, counts, times) as w (topic, staged, since)
        group by w.topic
    ) as w
    cross join lateral (
        values
        ('pgq_topic_staged_messages', w.staged),
        (
            'pgq_topic_staged_seconds',
            greatest(extract(epoch from now_at - w.since), 0)
        )
    ) as s (name, value);
end
$$;

comment on function pgq._staged_samples(timestamptz) is
'Samples of unsequenced messages of deferred topics: their number, at most 1000 counted for each
segment of a partition, and the age of the oldest.';
