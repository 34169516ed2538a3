-- :keyed messages of :keys keys, which take turns.
select count(*)
from
    generate_series(0, :keyed / 1000 - 1) as thousand,
    lateral (
        select
            array_agg('key' || (thousand * 1000 + place) % :keys order by place) as keys,
            array_agg(to_jsonb(thousand * 1000 + place) order by place) as numbers
        from generate_series(1, 1000) as place
    ) as made,
    pgq.publish_batch('bench', made.numbers, made.keys);
