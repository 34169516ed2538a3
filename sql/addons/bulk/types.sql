create type pgq.bulk_write_state as (
    write_id uuid,
    messages bigint,
    committed_at timestamptz,
    duplicate boolean,
    max_message_bytes integer
);

comment on type pgq.bulk_write_state is 'The state of a bulk write.';
comment on column pgq.bulk_write_state.write_id is
'The id that write_chunk, commit_write and abort_write take.';
comment on column pgq.bulk_write_state.messages is
'Number of messages or jobs that it wrote; null: not committed.';
comment on column pgq.bulk_write_state.committed_at is 'Time of the commit; null: not committed.';
comment on column pgq.bulk_write_state.duplicate is
'True: it was committed before this call, which changed nothing.';
comment on column pgq.bulk_write_state.max_message_bytes is
'The largest content that its topic or queue takes, in bytes; null: committed.';

create type pgq._write_target as (
    bulk_write_id bigint,
    atomic boolean,
    attempt integer,
    topic_id bigint,
    topic text,
    partitions integer,
    queue_id bigint,
    queue text,
    job_ttl interval,
    committed_at timestamptz,
    max_message_bytes integer
);

comment on type pgq._write_target is
'An open bulk write and its target, as write_chunk needs them.';

create type pgq._extent_position as (
    stored_partition_id bigint,
    next_offset bigint
);

comment on type pgq._extent_position is
'An extent of staged messages, and the offset at which its next message is stored.';
