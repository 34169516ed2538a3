-- :ordered jobs of :keys keys, which take turns; of one key one job at a time can be claimed.
-- (the number in the last argument keeps the planner from remembering a call with the same keys)
select count(*)
from
    generate_series(0, :ordered / 1000 - 1) as number,
    lateral (
        select array_agg('key' || (number * 1000 + place) % :keys order by place) as keys
        from generate_series(1, 1000) as place
    ) as thousand,
    pgq.enqueue_batch(
        'bench',
        keys => thousand.keys,
        bodies => array_fill(:'body'::bytea, array[1000 + 0 * number])
    );
