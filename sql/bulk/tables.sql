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
    digest text collate "C",
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
comment on column pgq.bulk_write.digest is
'What its writers say of its messages as a whole, see commit_write; null: nothing.';

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

-- What is staged survives a crash. The messages of a task of several chunks are stored at once
-- where they will stay, as runs that the log takes in when the write is committed. What a task of
-- one chunk has, and all that goes to a queue, is kept here and written to its place then.
--
-- Chunks lock the mark for key share until their transaction ends, and whoever removes it locks it
-- for update. So commit_write waits for chunks that are open and counts them, one that comes later
-- finds no mark or, in an old snapshot, fails with 40001, and as long as something is staged there
-- is the mark of its write.
create table pgq.staged_write (
    write_id uuid primary key
);

comment on table pgq.staged_write is
'Marks the atomic writes that are open; without its mark nothing staged for a write counts.';

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

create table pgq.staged_chunk (
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
    digest bigint,
    first_chunk integer,
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
'Chunks of atomic writes until these are committed, with their messages unless these are in runs.';
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
comment on column pgq.staged_chunk.digest is
'A hash of what its arguments begin with, where its messages are in runs; null: they are here.';
comment on column pgq.staged_chunk.first_chunk is
'The first of the chunks before it that came one after the other, with whose messages its own are
stored; null: they are here.';

create table pgq.staged_run (
    write_id uuid not null,
    task integer not null,
    first_chunk integer not null,
    partition integer not null,
    stored_partition_id bigint primary key,
    segment integer not null,
    partitions integer
);

create index staged_run_write on pgq.staged_run
(write_id, task, partition, first_chunk, stored_partition_id);
create index staged_run_segment on pgq.staged_run (segment);

comment on table pgq.staged_run is
'Messages of atomic writes that are stored already, and not in the log yet: rows of this
stored_partition_id in this segment, numbered from 1.';
comment on column pgq.staged_run.first_chunk is
'The first of the chunks whose messages it has; they came one after the other.';
comment on column pgq.staged_run.partition is 'The partition that they go to.';
comment on column pgq.staged_run.stored_partition_id is 'Under which partition_id they are stored.';
comment on column pgq.staged_run.segment is 'Where; it is not emptied before the write has ended.';
comment on column pgq.staged_run.partitions is
'How many partitions the topic had when their keys were divided among them; null: they had none.';

create sequence pgq.run_id as bigint;

comment on sequence pgq.run_id is
'What messages are stored under that were stored before their place in the log was known, and those
that came behind them: the number with a minus sign, so that it meets no other partition_id.';

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
