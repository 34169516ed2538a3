-- No foreign keys: drop_topic would wait for rows here while it holds partitions, and the writers
-- wait for these the other way round. cleanup removes what was dropped.
create table pgq.bulk_write (
    bulk_write_id bigint generated always as identity primary key,
    topic_id bigint,
    queue_id bigint,
    producer text collate "C",
    seq bigint,
    atomic boolean not null,
    write_id uuid not null unique,
    attempt integer not null default 1,
    begun_at timestamptz not null,
    expires_at timestamptz not null,
    committed_at timestamptz,
    messages bigint,
    check (num_nonnulls(topic_id, queue_id) = 1),
    check (num_nonnulls(producer, seq) <> 1)
);

create unique index bulk_write_seq on pgq.bulk_write
(coalesce(topic_id, 0), coalesce(queue_id, 0), producer, seq);
-- Where cleanup looks, however many writes are remembered.
create index bulk_write_open on pgq.bulk_write (expires_at) where committed_at is null;
create index bulk_write_nameless on pgq.bulk_write (committed_at) where producer is null;

comment on table pgq.bulk_write is
'Writes of many writers: open until the commit, then kept to know them when they are repeated.';
comment on column pgq.bulk_write.topic_id is 'The topic that is written to; null: a queue.';
comment on column pgq.bulk_write.queue_id is 'The queue that is written to; null: a topic.';
comment on column pgq.bulk_write.producer is
'Who writes; with seq it names the write. Null: it has no name, and is new each time.';
comment on column pgq.bulk_write.seq is 'The number that the producer gave the write.';
comment on column pgq.bulk_write.atomic is
'Whether chunks are staged until the commit, or published as they come.';
comment on column pgq.bulk_write.write_id is
'The id that writers pass; each start of the write makes a new one.';
comment on column pgq.bulk_write.attempt is 'How often it was started.';
comment on column pgq.bulk_write.begun_at is 'When it was started, the last time.';
comment on column pgq.bulk_write.expires_at is
'From when on cleanup forgets it, if it is still open.';
comment on column pgq.bulk_write.committed_at is 'When it was committed; null: it is open.';
comment on column pgq.bulk_write.messages is 'How many messages or jobs it wrote.';

create table pgq.bulk_producer (
    producer text collate "C" not null,
    topic_id bigint,
    queue_id bigint,
    forgotten_seq bigint,
    check (num_nonnulls(topic_id, queue_id) = 1)
);

create unique index bulk_producer_key on pgq.bulk_producer
(coalesce(topic_id, 0), coalesce(queue_id, 0), producer);
-- Where all tables are published, what has no key could not be changed.
alter table pgq.bulk_producer replica identity full;

comment on table pgq.bulk_producer is
'What is left of the writes that commit_write forgot, because their producer made newer ones.';
comment on column pgq.bulk_producer.topic_id is 'The topic that it writes to; null: a queue.';
comment on column pgq.bulk_producer.queue_id is 'The queue that it writes to; null: a topic.';
comment on column pgq.bulk_producer.forgotten_seq is
'The highest number of a write that was forgotten; null: none was.';

-- What is staged is written a second time when it is published, so the first time goes without
-- write-ahead log. A crash or a failover empties these tables, the mark of the write is gone then,
-- and it has to be started again: what some tasks staged is never taken for what all did.
--
-- Chunks lock the mark for key share until their transaction ends, and whoever removes it locks it
-- for update. So commit_write waits for chunks that are open and counts them, one that comes later
-- finds no mark or, in an old snapshot, fails with 40001, and as long as a row is staged there is
-- the mark of its write.
create unlogged table pgq.staged_write (
    write_id uuid primary key
);

comment on table pgq.staged_write is
'Marks the atomic writes that are open; without its mark nothing staged for a write counts.';

create unlogged table pgq.staged_task (
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

create unlogged table pgq.staged_chunk (
    write_id uuid not null,
    task integer not null,
    chunk integer not null,
    messages integer not null,
    payloads jsonb[],
    keys text[],
    headers jsonb[],
    partition integer,
    delay interval,
    priority integer,
    labels text[],
    bodies bytea[],
    lengths integer[],
    starts integer[],
    packed_bodies bytea,
    primary key (write_id, task, chunk)
);

-- Chunks are written and read whole, and once: compressing them costs more than it saves.
alter table pgq.staged_chunk
alter column payloads set storage external,
alter column keys set storage external,
alter column headers set storage external,
alter column labels set storage external,
alter column bodies set storage external,
alter column lengths set storage external,
alter column starts set storage external,
alter column packed_bodies set storage external;

comment on table pgq.staged_chunk is
'Messages of atomic writes until these are committed; not replicated, and empty after a crash.';
comment on column pgq.staged_chunk.chunk is 'The number of the chunk within its task.';
comment on column pgq.staged_chunk.messages is 'How many messages it has.';
comment on column pgq.staged_chunk.payloads is 'The contents as JSON; null: they are bytes.';
comment on column pgq.staged_chunk.keys is 'The key of each message; null: no keys.';
comment on column pgq.staged_chunk.headers is 'The headers of each message; null: no headers.';
comment on column pgq.staged_chunk.partition is 'The partition to publish to; null: see publish.';
comment on column pgq.staged_chunk.delay is 'The delay of jobs; null: the queue''s.';
comment on column pgq.staged_chunk.priority is 'The priority of jobs; null: 0.';
comment on column pgq.staged_chunk.labels is 'The label of each job; null: no labels.';
comment on column pgq.staged_chunk.bodies is
'The contents as raw bytes, each by itself; null: see payloads and packed_bodies.';
comment on column pgq.staged_chunk.lengths is 'The length of each of the packed bodies, in bytes.';
comment on column pgq.staged_chunk.starts is 'Where each of the packed bodies begins, from 1.';
comment on column pgq.staged_chunk.packed_bodies is
'The contents as raw bytes, one after the other; null: see payloads and bodies.';

-- The same for writes that are not atomic. It belongs to the write and not to one attempt:
-- commit_write waits for open chunks of earlier attempts as well, since these will be published.
create table pgq.published_write (
    bulk_write_id bigint primary key
);

comment on table pgq.published_write is
'Marks the writes that are open and not atomic: chunks lock it, commit_write removes it.';

-- No foreign key: cleanup removes many chunks in several calls, and their write first.
create table pgq.published_chunk (
    bulk_write_id bigint not null,
    task integer not null,
    chunk integer not null,
    messages integer not null,
    digest bigint not null,
    attempt integer not null,
    primary key (bulk_write_id, task, chunk)
);

comment on table pgq.published_chunk is
'Chunks of writes that are not atomic, until the commit: a chunk that comes again is left out.';
comment on column pgq.published_chunk.chunk is 'The number of the chunk within its task.';
comment on column pgq.published_chunk.messages is 'How many messages it had.';
comment on column pgq.published_chunk.attempt is 'The newest attempt of the write that wrote it.';
comment on column pgq.published_chunk.digest is
'A hash of all its arguments: another hash shows that a repeated task made another chunk.';
