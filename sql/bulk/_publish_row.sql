create function pgq._publish_row()
returns trigger
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgq.publish(
        new.topic,
        new.payload::jsonb,
        new.key,
        new.headers::jsonb,
        new.partition,
        new.body
    );
    return new;
end
$$;

comment on function pgq._publish_row() is
'Calls publish for each row inserted into publish_rows.';
