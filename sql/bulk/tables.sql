create table pgq.bulk_write (
    bulk_write_id bigint generated always as identity primary key,
    topic_id bigint references pgq.topic (topic_id) on delete cascade,
    queue_id bigint references pgq.queue (queue_id) on delete cascade,
    producer text,
    seq bigint,
    atomic boolean not null,
    write_id uuid not null unique,
    begun_at timestamptz not null,
    expires_at timestamptz not null,
    committed_at timestamptz,
    messages bigint,
    check (num_nonnulls(topic_id, queue_id) = 1),
    check (num_nonnulls(producer, seq) <> 1)
);

create unique index bulk_write_topic on pgq.bulk_write (topic_id, producer, seq)
where topic_id is not null;
create unique index bulk_write_queue on pgq.bulk_write (queue_id, producer, seq)
where queue_id is not null;

comment on table pgq.bulk_write is
'What many writers write as one: open until it is committed, then kept to know it again.';
comment on column pgq.bulk_write.topic_id is 'The topic that is written to; null: a queue.';
comment on column pgq.bulk_write.queue_id is 'The queue that is written to; null: a topic.';
comment on column pgq.bulk_write.producer is
'Who writes; with seq it tells a repeated write; null: not to be told.';
comment on column pgq.bulk_write.seq is 'The number that the producer gave the write.';
comment on column pgq.bulk_write.atomic is
'Whether chunks are staged until the commit, or published as they come.';
comment on column pgq.bulk_write.write_id is
'The token of those who may write: a new begin gives out a new one, and the old ones are refused.';
comment on column pgq.bulk_write.begun_at is 'When it was begun, the last time.';
comment on column pgq.bulk_write.expires_at is
'From when on cleanup forgets it, should it still be open.';
comment on column pgq.bulk_write.committed_at is 'When it was committed; null: it is open.';
comment on column pgq.bulk_write.messages is 'How many messages or jobs it wrote.';

create table pgq.staged_task (
    write_id uuid not null,
    task integer not null,
    task_attempt text not null,
    messages bigint,
    primary key (write_id, task)
);

comment on table pgq.staged_task is 'Which attempt of each task of an atomic write counts.';
comment on column pgq.staged_task.task_attempt is
'The attempt that staged the first chunk and committed; chunks of others are left out.';
comment on column pgq.staged_task.messages is
'How many messages the task staged; null: its last chunk has not come.';

-- Written twice, so the first time without write-ahead log: a crash of the server empties this
-- table, commit_write finds less than staged_task says, and the write is begun anew.
create unlogged table pgq.staged_chunk (
    write_id uuid not null,
    task integer not null,
    chunk integer not null,
    partition integer,
    priority integer,
    delay interval,
    is_json boolean not null,
    packed bytea not null,
    lengths integer[] not null,
    keys text[],
    headers jsonb[],
    labels text[],
    primary key (write_id, task, chunk)
);

-- Chunks are written and read whole, and once: compressing them costs more than it saves.
alter table pgq.staged_chunk alter column packed set storage external;
alter table pgq.staged_chunk alter column lengths set storage external;

comment on table pgq.staged_chunk is
'Messages of atomic writes until these are committed; not replicated, and empty after a crash.';
comment on column pgq.staged_chunk.chunk is 'The number of the chunk within its task.';
comment on column pgq.staged_chunk.partition is 'The partition to publish to; null: see publish.';
comment on column pgq.staged_chunk.priority is 'The priority of jobs; null: 0.';
comment on column pgq.staged_chunk.delay is 'The delay of jobs; null: the queue''s.';
comment on column pgq.staged_chunk.is_json is 'Whether the contents are JSON, or raw bytes.';
comment on column pgq.staged_chunk.packed is 'The contents of its messages, one behind the other.';
comment on column pgq.staged_chunk.lengths is 'The length of each content, in bytes.';
comment on column pgq.staged_chunk.keys is 'The key of each message; null: no keys.';
comment on column pgq.staged_chunk.headers is 'The headers of each message; null: no headers.';
comment on column pgq.staged_chunk.labels is 'The label of each job; null: no labels.';

create table pgq.published_chunk (
    bulk_write_id bigint not null references pgq.bulk_write (bulk_write_id) on delete cascade,
    task integer not null,
    chunk integer not null,
    messages integer not null,
    digest bigint not null,
    primary key (bulk_write_id, task, chunk)
);

comment on table pgq.published_chunk is
'Chunks of writes that are not atomic, until these are committed: what comes again is left out.';
comment on column pgq.published_chunk.chunk is 'The number of the chunk within its task.';
comment on column pgq.published_chunk.messages is 'How many messages it had.';
comment on column pgq.published_chunk.digest is
'A hash of its contents, to notice that a repeated task made other chunks.';
