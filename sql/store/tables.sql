create table pgq.storage_class (
    storage_class_id bigint generated always as identity primary key,
    retention interval,
    max_bytes bigint,
    owner_id bigint,
    segment integer,
    for_keys boolean not null default false
);

-- One class per retention; a topic with a size limit has its own. Two intervals may be equal and
-- yet not the same (1 month, 30 days), so their binary form is compared.
create unique index storage_class_key on pgq.storage_class
(coalesce(interval_send(retention), ''::bytea), coalesce(owner_id, 0));

comment on table pgq.storage_class is
'A storage class: data with the same retention, stored together. Each class writes to one segment at
a time.';
comment on column pgq.storage_class.retention is 'How long messages are kept; null: without limit.';
comment on column pgq.storage_class.max_bytes is 'Size limit of the class, in bytes; null: none.';
comment on column pgq.storage_class.owner_id is
'The topic that has this class to itself; null: shared.';
comment on column pgq.storage_class.segment is
'The open segment, to which new messages are written; null: the class is out of use. A transaction
that enters the segment locks this row, and opening another segment updates it.';
comment on column pgq.storage_class.for_keys is
'Whether idempotency keys were stored in it: then it stays as long as a topic or queue has a window
of this tier, see _key_tier.';

create table pgq.storage_bound (
    is_only_row boolean primary key default true check (is_only_row),
    max_retentions integer not null default 24,
    max_sized_topics integer not null default 100
);

comment on table pgq.storage_bound is
'Limits on the number of storage classes, see set_storage_bounds, which only the owner of pgq can
call. Each class takes tables, and a lock per table wherever all segments are read.';
comment on column pgq.storage_bound.is_only_row is
'Always true: there is one row at most; without it the defaults apply.';
comment on column pgq.storage_bound.max_retentions is
'Highest number of different retentions and idempotency windows together.';
comment on column pgq.storage_bound.max_sized_topics is 'Highest number of topics with max_bytes.';

create table pgq.size_bound (
    segment integer not null,
    partition_id bigint not null,
    bytes bigint not null
);

create index size_bound_partition on pgq.size_bound (segment, partition_id);
create index size_bound_bytes on pgq.size_bound (segment, bytes);

-- It has no key: see _note_size.
alter table pgq.size_bound replica identity full;

comment on table pgq.size_bound is
'Upper bounds for the sizes of stored messages, so that reading many of them seldom has to measure
each one. A message of more than 32 KiB is stored together with a row here, unless there is one.';
comment on column pgq.size_bound.segment is 'The segment that has such messages.';
comment on column pgq.size_bound.partition_id is 'The partition_id under which they are stored.';
comment on column pgq.size_bound.bytes is
'A power of two: no message there is larger than the highest of these.';

create table pgq.leaf (
    leaf integer primary key,
    free boolean not null
);

comment on table pgq.leaf is
'The leaves of message, job_archive and idempotency that exist.
A dump of the extension omits this table: a new installation creates its own leaves, and segment
says which of them are in use.';
comment on column pgq.leaf.leaf is 'Its number N: of message_N, job_archive_N and idempotency_N.';
comment on column pgq.leaf.free is 'Whether no segment uses it; the leaf is empty then.';

create table pgq.segment (
    segment integer primary key,
    storage_class_id bigint not null references pgq.storage_class (storage_class_id),
    state text not null check (state in ('open', 'sealed', 'closed')),
    opened_at timestamptz not null,
    sealed_at timestamptz,
    sealed_xid xid8,
    horizon xid8,
    closed_at timestamptz
);

comment on table pgq.segment is 'The leaves in use, each for one storage class.';
comment on column pgq.segment.segment is 'The number of the leaf.';
comment on column pgq.segment.storage_class_id is 'The class whose data it holds.';
comment on column pgq.segment.state is
'open: written to; sealed: transactions that saw it open may still write to it; closed: nothing is
added any more.';
comment on column pgq.segment.opened_at is 'When its class began to write to it.';
comment on column pgq.segment.sealed_at is 'When its class moved on to another segment.';
comment on column pgq.segment.sealed_xid is 'The transaction that sealed it.';
comment on column pgq.segment.horizon is
'Transactions with a lower id may still write to it; it can be closed when all of them have ended.';
comment on column pgq.segment.closed_at is
'From then on nothing was added: its messages are older.';

create unique index segment_open on pgq.segment (storage_class_id) where state = 'open';

-- At most eight columns: a row with nulls then has a header of 24 bytes, with nine one of 32.
create table pgq.message (
    partition_id bigint not null,
    log_offset bigint not null,
    published_at timestamptz not null,
    segment integer not null,
    key text,
    headers jsonb,
    payload jsonb,
    body bytea
)
partition by list (segment);

comment on table pgq.message is
'The payloads of topics and queues, each written once. Its leaves are emptied by TRUNCATE.';
comment on column pgq.message.partition_id is
'The topic partition, or the queue, that it belongs to.';
comment on column pgq.message.log_offset is 'Its offset in the partition; for a queue, the job_id.';
comment on column pgq.message.published_at is
'When it was published, by the clock of the server; rises with the offset.';
comment on column pgq.message.segment is 'The leaf that holds it.';
comment on column pgq.message.key is 'Messages with one key go to one partition; null: no key.';
comment on column pgq.message.headers is
'A JSON object of metadata beside the payload; null: none.';
comment on column pgq.message.payload is 'The content as JSON; null when body is set.';
comment on column pgq.message.body is 'The content as raw bytes; null when payload is set.';

create table pgq.idempotency (
    scope_id bigint not null,
    ends_at timestamptz not null,
    job_id bigint,
    log_offset bigint,
    segment integer not null,
    partition integer,
    idempotency_key text collate "C" not null,
    primary key (scope_id, idempotency_key, segment)
)
partition by list (segment);

comment on table pgq.idempotency is
'Idempotency keys, in segments of a class whose retention is at least their window (_key_tier); a
leaf is truncated together with the messages of the same number. A key may have rows in several
segments: the one with the latest ends_at counts.';
comment on column pgq.idempotency.scope_id is
'The scope of the key: the partition_id of a queue, or of partition 0 of a topic.';
comment on column pgq.idempotency.ends_at is 'When it expires: its window after it was stored.';
comment on column pgq.idempotency.job_id is 'The job that was enqueued with it; null: a message.';
comment on column pgq.idempotency.log_offset is
'The offset of the message that was published with it; null: a job.';
comment on column pgq.idempotency.segment is 'The leaf that holds it.';
comment on column pgq.idempotency.partition is
'The partition of that message; null: a job. job_id and partition are both null only during the call
that inserts the key.';
comment on column pgq.idempotency.idempotency_key is 'The key.';

create table pgq.former_window (
    scope_id bigint not null,
    tier interval not null,
    window_length interval not null,
    noted_xid xid8 not null,
    horizon xid8,
    ends_at timestamptz,
    primary key (scope_id, tier)
);

comment on table pgq.former_window is
'Idempotency windows that queues and topics had before, whose keys stand in another class.';
comment on column pgq.former_window.scope_id is
'The queue or topic that had the window; see idempotency.';
comment on column pgq.former_window.tier is
'The retention of the class that has its keys, see _key_tier.';
comment on column pgq.former_window.window_length is 'The length of the window.';
comment on column pgq.former_window.noted_xid is 'The transaction that changed it.';
comment on column pgq.former_window.horizon is
'Transactions with a lower id may still store keys by it; null: not determined by cleanup yet.';
comment on column pgq.former_window.ends_at is
'When the last of its keys expires; null: such transactions may still run.';

create table pgq.dropped_range (
    partition_id bigint not null,
    segment integer not null,
    first_offset bigint not null,
    last_offset bigint not null,
    queue_id bigint,
    noted_xid xid8,
    horizon xid8,
    primary key (partition_id, segment, first_offset)
);

comment on table pgq.dropped_range is
'Unreachable messages in segments that are never truncated, left by a dropped topic or queue, or an
abandoned bulk write, without a retention. cleanup deletes them.';
comment on column pgq.dropped_range.partition_id is 'The partition_id under which they are stored.';
comment on column pgq.dropped_range.segment is 'The segment that holds them.';
comment on column pgq.dropped_range.first_offset is 'The first of them.';
comment on column pgq.dropped_range.last_offset is 'The last of them.';
comment on column pgq.dropped_range.queue_id is
'The queue whose jobs they were; null: messages of a topic.';
comment on column pgq.dropped_range.noted_xid is
'The transaction that recorded the range, if others could still store messages in it; null: none
could.';
comment on column pgq.dropped_range.horizon is
'From this transaction id on none could; null: not determined by cleanup yet.';

-- One sequence for topic partitions and queues, so that message needs no second key column.
create sequence pgq.partition_id as bigint;

comment on sequence pgq.partition_id is
'Ids of topic partitions and of queues in the message store.';
