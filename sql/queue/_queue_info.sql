create function pgq._queue_info(queue text)
returns setof pgq.queue_info
language sql stable parallel safe rows 1
as $$
select
    q.queue, q.lease, q.max_attempts, q.delay, q.job_ttl, q.retention, q.backoff, q.backoff_max,
    q.backoff_jitter, q.archive, q.notify, q.paused, q.created_at, q.updated_at,
    q.idempotency_window, q.unique_until, q.ordered, q.after_dead_letter, q.max_leased,
    q.rate_limit, q.rate_interval, q.rate_burst, q.max_unfinished, q.max_leased_per_key,
    q.restricted, q.max_message_bytes, q.keep_results, q.on_duplicate, q.debounce_max
from pgq.queue as q
where q.queue = _queue_info.queue
$$;

comment on function pgq._queue_info(text) is
'Returns a queue and its settings; no row if no queue has this name.';
