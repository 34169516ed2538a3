create function pgq._split_by_partition(
    keys text[], partition integer, partitions integer, keyless integer
)
returns table (key_partition integer, ordinals integer[])
language plpgsql immutable parallel safe
as $$
declare
    key_partitions integer[];
begin
    if partition is not null or keys is null then
        return query select partition, null::integer[];
        return;
    end if;

    key_partitions := array(
        select coalesce(pgq._key_partition(k.key, partitions)::integer, keyless)
        from (select unnest(keys) as key) as k
    );

    -- Up to this many partitions, one array_positions for each is faster than grouping.
    if partitions <= 32 then
        return query
        select w.key_partition, w.ordinals
        from (
            select
                p.partition as key_partition,
                array_positions(key_partitions, p.partition) as ordinals
            from generate_series(0, partitions - 1) as p (partition)
        ) as w
        where cardinality(w.ordinals) > 0
        order by w.key_partition;
        return;
    end if;

    return query
    select h.key_partition, array_agg(h.ordinal::integer order by h.ordinal)
    from unnest(key_partitions) with ordinality as h (key_partition, ordinal)
    group by h.key_partition
    order by h.key_partition;
end
$$;

comment on function pgq._split_by_partition(text[], integer, integer, integer) is
'Divides the messages of a chunk among partitions, in ascending order of partition. ordinals: the
ordinals of its messages, from 1; null: all. A message with a key goes to the partition of the key,
one without to the partition keyless. Without keys, all go to the named partition, which may be
null.';
