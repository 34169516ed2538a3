create type pgq.bulk_write_state as (
    write_id uuid,
    messages bigint,
    committed_at timestamptz,
    duplicate boolean
);

comment on type pgq.bulk_write_state is 'Where a bulk write stands.';
comment on column pgq.bulk_write_state.write_id is
'The id that write_chunk, commit_write and abort_write take.';
comment on column pgq.bulk_write_state.messages is
'How many messages or jobs it wrote; null: not committed.';
comment on column pgq.bulk_write_state.committed_at is 'When it was committed; null: it was not.';
comment on column pgq.bulk_write_state.duplicate is
'Whether it was committed before this call, which then changed nothing.';

create type pgq._write_target as (
    bulk_write_id bigint,
    atomic boolean,
    attempt integer,
    topic_id bigint,
    topic text,
    partitions integer,
    queue_id bigint,
    queue text,
    job_ttl interval
);

comment on type pgq._write_target is 'What write_chunk has to know of the write it adds to.';

create type pgq._run_place as (
    stored_partition_id bigint,
    next_offset bigint
);

comment on type pgq._run_place is 'A run of staged messages, and where its next one is stored.';
