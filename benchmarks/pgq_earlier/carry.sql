-- A topic and a queue for others to use, and a queue of :carried living jobs whose segment has to
-- be emptied: they were enqueued for 30 days into a storage class that nothing uses any more.
select pgq.create_topic('bench', 8);
select pgq.create_queue('bench');
select count(*)
from
    generate_series(1, :jobs / 1000) as number,
    pgq.enqueue_batch('bench', bodies => array_fill(:'body'::bytea, array[1000 + 0 * number]));
select pgq.create_queue('carried', retention => '30 days');
select count(*)
from
    generate_series(1, :carried / 1000) as number,
    pgq.enqueue_batch('carried', bodies => array_fill(:'body'::bytea, array[1000 + 0 * number]));
select pgq.alter_queue('carried', retention => '14 days');
