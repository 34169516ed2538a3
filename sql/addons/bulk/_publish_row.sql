create function pgq._publish_row()
returns trigger
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
begin
    perform pgq.publish(
        topic => new.topic, payload => new.payload::jsonb, key => new.key,
        headers => new.headers::jsonb, partition => new.partition,
        idempotency_key => new.idempotency_key, body => new.body
    );
    return new;
end
$$;

comment on function pgq._publish_row() is
'Trigger of publish_rows: calls publish for each inserted row.';
