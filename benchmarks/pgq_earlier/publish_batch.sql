-- :batch messages per transaction, into whichever partition is free.
select * from pgq.publish_batch(
    'bench', bodies => array_fill(:body::bytea, array[:batch::integer])
);
