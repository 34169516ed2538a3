create function pgq._announce_queue(queue_id bigint)
returns void
language sql volatile parallel unsafe
as $$
select pg_notify('pgq_queue', case when q.restricted then '' else q.queue end)
from pgq.queue as q
where q.queue_id = _announce_queue.queue_id and q.notify
$$;

comment on function pgq._announce_queue(bigint) is
'Notifies workers that a queue may have jobs for them earlier than before, if it has notify.';
