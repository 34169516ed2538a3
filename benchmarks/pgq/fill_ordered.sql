-- All of one key, so that one job at a time can be claimed.
select count(*)
from
    generate_series(1, :ordered / 1000) as number,
    pgq.enqueue_batch(
        'bench',
        keys => array_fill('key'::text, array[1000]),
        bodies => array_fill(:'body'::bytea, array[1000 + 0 * number])
    );
