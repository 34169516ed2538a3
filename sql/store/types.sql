create type pgq.message_record as (
    partition integer,
    log_offset bigint,
    published_at timestamptz,
    key text,
    headers jsonb,
    payload jsonb,
    body bytea
);

comment on type pgq.message_record is 'A message as consumers get it.';
comment on column pgq.message_record.partition is 'The number of its partition, from 0.';
comment on column pgq.message_record.log_offset is 'Its offset in the partition, from 1.';
comment on column pgq.message_record.published_at is 'When it was published.';
comment on column pgq.message_record.key is 'Its key; null: none.';
comment on column pgq.message_record.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.message_record.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.message_record.body is
'Its content as raw bytes; null when it has a payload.';

create type pgq._newest_message as (
    log_offset bigint,
    published_at timestamptz
);

comment on type pgq._newest_message is 'The last message of a partition in a segment.';
