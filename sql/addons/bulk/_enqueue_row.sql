create function pgq._enqueue_row()
returns trigger
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
begin
    perform pgq.enqueue(
        queue => new.queue, payload => new.payload::jsonb, key => new.key,
        headers => new.headers::jsonb, delay => new.delay::interval, run_at => new.run_at,
        priority => new.priority, label => new.label, idempotency_key => new.idempotency_key,
        unique_key => new.unique_key, max_attempts => new.max_attempts, body => new.body
    );
    return new;
end
$$;

comment on function pgq._enqueue_row() is
'Trigger of enqueue_rows: calls enqueue for each inserted row.';
