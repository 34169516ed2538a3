create function pgq._check_nothing_kept(target text, partition_ids bigint[])
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    leaf integer;
    is_there boolean;
begin
    for leaf in
        select s.segment
        from pgq.segment as s
        inner join pgq.storage_class as c on c.storage_class_id = s.storage_class_id
        where c.retention is null
    loop
        -- Unsequenced messages of a deferred topic have the partition_id in the upper bits of
        -- theirs.
        execute format(
            'select exists (
                select
                from unnest($1) as i (partition_id)
                cross join lateral (
                    (
                        select
                        from pgq.message_%1$s as m
                        where m.partition_id = i.partition_id
                        limit 1
                    )
                    union all
                    (
                        select
                        from pgq.message_%1$s as m
                        where m.partition_id >= pgq._staged_id(i.partition_id, 0)
                            and m.partition_id < pgq._staged_id(i.partition_id + 1, 0)
                        limit 1
                    )
                ) as m
            )',
            leaf
        )
        into is_there
        using partition_ids;

        if is_there then
            raise exception 'a % that has stored anything without a retention cannot get one',
                target
                using errcode = '22023',
                    detail = 'What is stored is kept for ever.',
                    hint = 'Create a new one with this retention, and drain this one. '
                        'Where messages have to last through an outage, a long retention will do.';
        end if;
    end loop;
end
$$;

comment on function pgq._check_nothing_kept(text, bigint[]) is
'Raises 22023 when a topic or queue that has stored messages without a retention is to get one:
these stand in segments that are never truncated. Messages of open transactions are not seen; they
stay until the topic or queue is dropped.';
