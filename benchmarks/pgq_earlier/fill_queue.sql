select count(*)
from
    generate_series(1, :jobs / 1000) as number,
    pgq.enqueue_batch(
        'bench', bodies => array_fill(:'body'::bytea, array[1000 + 0 * number])
    );
