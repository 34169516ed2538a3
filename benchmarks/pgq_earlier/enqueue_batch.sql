-- :batch jobs per transaction.
select count(*) from pgq.enqueue_batch(
    'bench', bodies => array_fill(:body::bytea, array[:batch::integer])
);
