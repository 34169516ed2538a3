create function pgq._enqueue_row()
returns trigger
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgq.enqueue(
        queue => new.queue,
        payload => new.payload::jsonb,
        body => new.body,
        delay => new.delay::interval,
        priority => coalesce(new.priority, 0),
        label => new.label,
        headers => new.headers::jsonb,
        key => new.key,
        run_at => new.run_at
    );
    return new;
end
$$;

comment on function pgq._enqueue_row() is
'Calls enqueue for each row inserted into enqueue_rows.';
