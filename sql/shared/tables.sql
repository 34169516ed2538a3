create table pgq.storage_class (
    storage_class_id bigint generated always as identity primary key,
    retention interval,
    max_bytes bigint,
    owner_id bigint
);

-- One class per retention; a topic with a size limit has a class of its own.
create unique index storage_class_key on pgq.storage_class
(coalesce(retention, interval '-1 day'), coalesce(owner_id, 0));

comment on table pgq.storage_class is
'What is kept for the same time is stored together; each class writes to one segment.';
comment on column pgq.storage_class.retention is 'How long messages are kept; null: for ever.';
comment on column pgq.storage_class.max_bytes is 'Size limit of the class, in bytes; null: none.';
comment on column pgq.storage_class.owner_id is
'The topic that has this class for itself; null: shared.';

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

comment on table pgq.segment is
'The leaves of message that are in use; a leaf without a row here is empty and free.';
comment on column pgq.segment.segment is 'The number of the leaf: message_N and job_archive_N.';
comment on column pgq.segment.storage_class_id is 'The class whose messages it holds.';
comment on column pgq.segment.state is
'open: written to; sealed: late writers may still finish; closed: nothing is added any more.';
comment on column pgq.segment.opened_at is 'When its class began to write to it.';
comment on column pgq.segment.sealed_at is 'When its class moved on to another segment.';
comment on column pgq.segment.sealed_xid is 'The transaction that sealed it.';
comment on column pgq.segment.horizon is
'Transactions below this one may still write to it; once all have ended it can be closed.';
comment on column pgq.segment.closed_at is
'From when on nothing was added; its messages are older.';

create unique index segment_open on pgq.segment (storage_class_id) where state = 'open';

-- Eight columns at most: a row with nulls then has a header of 24 bytes, with nine it would have
-- 32.
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
'Every payload, of topics and of queues, written once. Its leaves are emptied by TRUNCATE.';
comment on column pgq.message.partition_id is
'The topic partition, or the queue, that it belongs to.';
comment on column pgq.message.log_offset is 'Its offset in the partition; for a queue, the job_id.';
comment on column pgq.message.published_at is
'When it was published, by the clock of the server; rises with the offset.';
comment on column pgq.message.segment is 'The leaf that holds it.';
comment on column pgq.message.key is 'Messages with one key go to one partition; null: no key.';
comment on column pgq.message.headers is 'A JSON object with what travels beside the payload.';
comment on column pgq.message.payload is 'The content as JSON; null when body is set.';
comment on column pgq.message.body is 'The content as raw bytes; null when payload is set.';

-- Partitions of topics and queues draw their ids from here, so that message needs no second key.
create sequence pgq.partition_id as bigint;

comment on sequence pgq.partition_id is
'Ids of topic partitions and of queues in the message store.';
