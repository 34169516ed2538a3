select count(*)
from
    (select partitions from pgq.list_topics() where topic = 'bench') as bench,
    generate_series(1, :messages / 1000) as number,
    pgq.publish_batch(
        'bench',
        partition => number % partitions,
        bodies => array_fill(:'body'::bytea, array[1000])
    );
