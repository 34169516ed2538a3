-- No foreign keys, because of deadlocks: drop_topic would wait for rows here while it holds
-- partitions, and writers wait for partitions while they hold rows here. cleanup removes the writes
-- of dropped topics and queues.
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
    owner text collate "C",
    check (num_nonnulls(topic_id, queue_id) = 1),
    check (num_nonnulls(producer, owner) = num_nonnulls(seq))
);

create unique index bulk_write_seq on pgq.bulk_write
(coalesce(topic_id, 0), coalesce(queue_id, 0), producer, seq);
-- For cleanup: its cost must not depend on the number of remembered writes.
create index bulk_write_open on pgq.bulk_write (expires_at) where committed_at is null;
create index bulk_write_nameless on pgq.bulk_write (committed_at) where producer is null;
create index bulk_write_owner on pgq.bulk_write (owner)
where owner is not null and committed_at is null;

comment on table pgq.bulk_write is
'Bulk writes: open until the commit, then kept so that a repeated write is recognised.';
comment on column pgq.bulk_write.topic_id is 'The target topic; null: a queue.';
comment on column pgq.bulk_write.queue_id is 'The target queue; null: a topic.';
comment on column pgq.bulk_write.producer is
'Name of the producer, which with seq identifies the write; null: an unnamed write, new each time.';
comment on column pgq.bulk_write.seq is
'The number that the producer gave the write, or the owner its attempt.';
comment on column pgq.bulk_write.atomic is
'True: chunks are staged until the commit; false: they are published at once.';
comment on column pgq.bulk_write.write_id is
'The id that writers pass; each start of the write makes a new one.';
comment on column pgq.bulk_write.attempt is 'Number of starts, from 1.';
comment on column pgq.bulk_write.begun_at is 'Time of the last start.';
comment on column pgq.bulk_write.expires_at is
'Time from which cleanup forgets the write, if it is still open and no task of it was staged later.
The timeout of the write is the time between begun_at and this.';
comment on column pgq.bulk_write.committed_at is 'Time of the commit; null: open.';
comment on column pgq.bulk_write.messages is
'Number of messages or jobs that it wrote; null: not committed.';
comment on column pgq.bulk_write.digest is
'The digest of all messages, passed to commit_write; null: none.';
comment on column pgq.bulk_write.owner is
'The job whose task made this unnamed write; a later attempt of the job aborts it. null: none.';

create table pgq.bulk_producer (
    producer text collate "C" not null,
    topic_id bigint,
    queue_id bigint,
    forgotten_seq bigint,
    check (num_nonnulls(topic_id, queue_id) = 1)
);

create unique index bulk_producer_key on pgq.bulk_producer
(coalesce(topic_id, 0), coalesce(queue_id, 0), producer);
-- Without a primary key, changes would fail in a publication for all tables.
alter table pgq.bulk_producer replica identity full;

comment on table pgq.bulk_producer is
'Per producer and target, the highest seq that commit_write has forgotten.';
comment on column pgq.bulk_producer.topic_id is 'The target topic; null: a queue.';
comment on column pgq.bulk_producer.queue_id is 'The target queue; null: a topic.';
comment on column pgq.bulk_producer.forgotten_seq is
'The highest seq of a forgotten write; null: none was forgotten.';

-- Staged data survives a crash. Messages of a task with several chunks are stored at once where
-- they will stay, as extents that the commit attaches to the log. Messages of a task
-- with one chunk, and all jobs, are kept in staged_chunk until the commit stores them.
--
-- Locks: a chunk holds FOR KEY SHARE on the marker (staged_write) until its transaction ends;
-- commit_write, and any removal of the marker, takes FOR UPDATE. So commit_write waits for open
-- chunks and counts them; a later chunk finds no marker or, with an old snapshot, fails with 40001.
-- As long as data is staged for a write, its marker exists.
create table pgq.staged_write (
    write_id uuid primary key
);

comment on table pgq.staged_write is
'Markers of open atomic writes; data staged for a write without a marker is void.';

create table pgq.staged_task (
    write_id uuid not null,
    task integer not null,
    task_attempt text not null,
    staged_at timestamptz not null,
    messages bigint,
    primary key (write_id, task)
);

comment on table pgq.staged_task is 'Which attempt of each task of an atomic write counts.';
comment on column pgq.staged_task.task_attempt is
'The attempt that staged the first chunk and committed; chunks of others are left out.';
comment on column pgq.staged_task.staged_at is 'When its first chunk was staged, or its last one.';
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

-- Chunks are written once and read once, as a whole: compression costs more than it saves.
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
'Chunks of atomic writes until the commit, with their messages unless these are in extents.';
comment on column pgq.staged_chunk.chunk is 'Number of the chunk within its task.';
comment on column pgq.staged_chunk.messages is 'Number of messages.';
comment on column pgq.staged_chunk.payloads is
'The contents as JSON; null: they are raw bytes, or in extents.';
comment on column pgq.staged_chunk.keys is 'The key of each message; null: no keys.';
comment on column pgq.staged_chunk.headers is 'The headers of each message; null: no headers.';
comment on column pgq.staged_chunk.partition is 'The partition to publish to; null: see publish.';
comment on column pgq.staged_chunk.delay is 'The delay of jobs; null: that of the queue.';
comment on column pgq.staged_chunk.priority is 'The priority of jobs; null: 0.';
comment on column pgq.staged_chunk.labels is 'The label of each job; null: no labels.';
comment on column pgq.staged_chunk.bodies is
'The contents as raw bytes, one element each; null: see payloads and packed_bodies.';
comment on column pgq.staged_chunk.lengths is 'The length of each of the packed bodies, in bytes.';
comment on column pgq.staged_chunk.starts is
'The position of the first byte of each of the packed bodies, from 1.';
comment on column pgq.staged_chunk.packed_bodies is
'The contents as raw bytes, concatenated; null: see payloads and bodies.';
comment on column pgq.staged_chunk.digest is
'Hash of the sizes and beginnings of its arguments, if its messages are in extents; null: its
messages are here.';
comment on column pgq.staged_chunk.first_chunk is
'The first of the consecutive chunks that end with this one, which share its extents; null: its
messages are here.';

create table pgq.staged_extent (
    write_id uuid not null,
    task integer not null,
    first_chunk integer not null,
    partition integer not null,
    stored_partition_id bigint primary key,
    segment integer not null,
    partitions integer
);

create index staged_extent_write on pgq.staged_extent
(write_id, task, partition, first_chunk, stored_partition_id);
create index staged_extent_segment on pgq.staged_extent (segment);

comment on table pgq.staged_extent is
'Extents: messages of atomic writes that are stored already but not in the log yet, as rows of
message under this stored_partition_id in this segment, with offsets from 1.';
comment on column pgq.staged_extent.first_chunk is
'The first of the consecutive chunks whose messages it has.';
comment on column pgq.staged_extent.partition is 'The partition that the messages go to.';
comment on column pgq.staged_extent.stored_partition_id is
'The partition_id under which the messages are stored.';
comment on column pgq.staged_extent.segment is
'The segment that holds the messages; it is not truncated before the write has ended.';
comment on column pgq.staged_extent.partitions is
'The number of partitions among which the messages were divided by key; null: without keys.';

create sequence pgq.extent_id as bigint;

comment on sequence pgq.extent_id is
'Ids of extents, and of the new epochs of partitions after attached extents. They are used with a
minus sign, so that they never equal another partition_id.';

-- The same for writes that are not atomic. The marker belongs to the write, not to one attempt:
-- commit_write waits for open chunks of earlier attempts as well, since these will be published.
create table pgq.published_write (
    bulk_write_id bigint primary key
);

comment on table pgq.published_write is
'Markers of open writes that are not atomic: chunks lock them, commit_write removes them.';

-- No foreign key: cleanup removes the write first, and then its chunks in several calls.
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
'Chunks of writes that are not atomic, until the commit: a repeated chunk is skipped.';
comment on column pgq.published_chunk.chunk is 'Number of the chunk within its task.';
comment on column pgq.published_chunk.messages is 'Number of messages.';
comment on column pgq.published_chunk.attempt is
'The newest attempt of the write that wrote the chunk.';
comment on column pgq.published_chunk.digest is
'Hash of all its arguments; a different hash shows that a repeated task made another chunk.';
