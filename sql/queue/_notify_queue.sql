create function pgq._notify_queue(queue text)
returns integer
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    perform pg_notify('pgq_queue', _notify_queue.queue);
    return 0;
end
$$;

comment on function pgq._notify_queue(text) is
'Notifies the channel pgq_queue, and returns 0, the attempt of a new job: so enqueue can read the
queue and add the job in one statement.';
