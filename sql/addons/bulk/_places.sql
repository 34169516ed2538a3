create function pgq._places(keys text[], partition integer, partitions integer, keyless integer)
returns table (home integer, places integer[])
language plpgsql immutable parallel safe
as $$
declare
    homes integer[];
begin
    if partition is not null or keys is null then
        return query select partition, null::integer[];
        return;
    end if;

    homes := array(
        select coalesce(pgq._home(k.key, partitions)::integer, keyless)
        from (select unnest(keys) as key) as k
    );

    -- Up to this many partitions, one array_positions for each is faster than grouping.
    if partitions <= 32 then
        return query
        select w.home, w.places
        from (
            select p.partition as home, array_positions(homes, p.partition) as places
            from generate_series(0, partitions - 1) as p (partition)
        ) as w
        where cardinality(w.places) > 0
        order by w.home;
        return;
    end if;

    return query
    select h.home, array_agg(h.place::integer order by h.place)
    from unnest(homes) with ordinality as h (home, place)
    group by h.home
    order by h.home;
end
$$;

comment on function pgq._places(text[], integer, integer, integer) is
'Divides the messages of a chunk among partitions, in ascending order of partition. places: the
ordinals of its messages, from 1; null: all. A message with a key goes to the partition of the key,
one without to the partition keyless. Without keys, all go to the named partition, which may be
null.';
