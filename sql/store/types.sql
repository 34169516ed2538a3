create type pgq._newest_message as (
    log_offset bigint,
    published_at timestamptz
);

comment on type pgq._newest_message is 'The last message of a partition in a segment.';
