create function pgq._newest_offsets(topic_ids bigint[])
returns setof pgq._newest_offset
language plpgsql stable parallel safe
as $$
declare
    cases text := (
        select
            string_agg(
                format(
                    'when %1$s then (
                        select m.log_offset
                        from pgq.message_%1$s as m
                        where m.partition_id = p.stored_partition_id
                        order by m.log_offset desc
                        limit 1
                    )',
                    w.segment
                ),
                ' '
            )
        from (
            select distinct p.segment
            from unnest(topic_ids) as t (topic_id)
            inner join pgq.partition as p on p.topic_id = t.topic_id
        ) as w
    );
begin
    -- Read each leaf by name: a plan through the parent would lock every leaf. A lookup examines a
    -- page of index entries: a second condition would be tested twice at each of them, and an
    -- index-only scan would copy them all.
    return query execute format(
        'with ranges as (
            select r.partition_id, min(r.first_offset) as first_offset
            from pgq.segment_range as r
            group by r.partition_id
        )

        select
            p.topic_id,
            p.partition_id,
            p.stored_partition_id,
            r.first_offset,
            p.segment,
            p.segment_first_offset,
            greatest(%s, p.segment_first_offset - 1)
        from unnest($1) as t (topic_id)
        inner join pgq.partition as p on p.topic_id = t.topic_id
        left join ranges as r on r.partition_id = p.partition_id',
        coalesce('case p.segment ' || cases || ' end', 'null')
    )
    using topic_ids;
end
$$;

comment on function pgq._newest_offsets(bigint[]) is
'The newest offset of each partition of these topics.';
