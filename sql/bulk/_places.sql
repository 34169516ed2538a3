create function pgq._places(keys text[], partition integer, partitions integer, keyless integer)
returns table (home integer, places integer[])
language plpgsql immutable parallel safe
as $$
declare
    -- Of so many each is looked for by itself, which is quick.
    few constant integer := 32;
    homes integer[];
begin
    if partition is not null or keys is null then
        return query select _places.partition, null::integer[];
        return;
    end if;

    homes := array(
        select coalesce(pgq._home(k.key, _places.partitions)::integer, _places.keyless)
        from (select unnest(_places.keys) as key) as k
    );
    if partitions <= few then
        return query
        select w.home, w.places
        from (
            select p.partition as home, array_positions(homes, p.partition) as places
            from generate_series(0, _places.partitions - 1) as p (partition)
        ) as w
        where cardinality(w.places) > 0
        order by w.home;
        return;
    end if;

    return query
    select w.home, array_agg(w.place order by w.place)
    from (
        select h.home, h.place::integer as place
        from unnest(homes) with ordinality as h (home, place)
    ) as w
    group by w.home
    order by w.home;
end
$$;

comment on function pgq._places(text[], integer, integer, integer) is
'Which messages of a chunk go to which partition, in ascending order: places are their numbers, from
1; null: all. Those with a key go where it belongs, others to the partition keyless. Without keys
all go to the one that is named, which may be null.';
