create table pgq.storage_class (
    storage_class_id bigint generated always as identity primary key,
    retention interval,
    max_bytes bigint,
    owner_id bigint,
    segment integer,
    for_keys boolean not null default false
);

-- One class per retention; a topic with a size limit has a class of its own. Two retentions may be
-- equal and yet not the same (a month, 30 days), so they are compared by what is stored of them.
create unique index storage_class_key on pgq.storage_class
(coalesce(interval_send(retention), ''::bytea), coalesce(owner_id, 0));

comment on table pgq.storage_class is
'What is kept for the same time is stored together; each class writes to one segment.';
comment on column pgq.storage_class.retention is 'How long messages are kept; null: for ever.';
comment on column pgq.storage_class.max_bytes is 'Size limit of the class, in bytes; null: none.';
comment on column pgq.storage_class.owner_id is
'The topic that has this class for itself; null: shared.';
comment on column pgq.storage_class.segment is
'The open segment, where new messages go; null: the class is out of use. Whoever puts something into
that segment locks this row, and opening another one changes it.';
comment on column pgq.storage_class.for_keys is
'Whether idempotency keys were noted in it: then it stays, as long as there is a window of this
tier, see _key_tier.';

create table pgq.storage_bound (
    is_only_row boolean primary key default true check (is_only_row),
    max_retentions integer not null default 24,
    max_sized_topics integer not null default 100
);

comment on table pgq.storage_bound is
'How many storage classes there may be: see set_storage_bounds, which the owner of pgq calls. Each
takes tables, and locks wherever all are looked at.';
comment on column pgq.storage_bound.is_only_row is 'There is one row at most; none: the defaults.';
comment on column pgq.storage_bound.max_retentions is
'Different lengths of retentions and idempotency windows together.';
comment on column pgq.storage_bound.max_sized_topics is 'Topics with max_bytes.';

create table pgq.leaf (
    leaf integer primary key,
    free boolean not null
);

comment on table pgq.leaf is 'The leaves of message, job_archive and idempotency that there are.
A dump of the extension leaves it out: an installation makes its own, and segment says which of them
are in use.';
comment on column pgq.leaf.leaf is 'Its number: message_N, job_archive_N and idempotency_N.';
comment on column pgq.leaf.free is 'Whether no segment uses it; it is empty then.';

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

comment on table pgq.segment is 'The leaves that are in use, and by which storage class.';
comment on column pgq.segment.segment is 'The number of the leaf.';
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
'Idempotency keys, in segments of a class that keeps them for their window or longer (_key_tier); a
leaf is truncated together with the messages of that number. One key may stand in several segments;
the row that ends last counts.';
comment on column pgq.idempotency.scope_id is
'Where it counts: the partition_id of a queue, or of partition 0 of a topic.';
comment on column pgq.idempotency.ends_at is
'Until when it counts: its window after it was noted.';
comment on column pgq.idempotency.job_id is 'The job that it was given with; null: a message.';
comment on column pgq.idempotency.log_offset is
'The offset of the message that it was given with; null: a job.';
comment on column pgq.idempotency.segment is 'The leaf that holds it.';
comment on column pgq.idempotency.partition is
'The partition of that message; null: a job. Both are null only within the call that notes it.';
comment on column pgq.idempotency.idempotency_key is 'The key.';

create table pgq.former_window (
    scope_id bigint not null,
    tier interval not null,
    keep interval not null,
    noted_xid xid8 not null,
    horizon xid8,
    ends_at timestamptz,
    primary key (scope_id, tier)
);

comment on table pgq.former_window is
'Windows that queues and topics had before, whose keys stand in another class.';
comment on column pgq.former_window.scope_id is 'Whose window it was; see idempotency.';
comment on column pgq.former_window.tier is 'The retention of that class, see _key_tier.';
comment on column pgq.former_window.keep is 'How long the window was.';
comment on column pgq.former_window.noted_xid is 'The transaction that changed it.';
comment on column pgq.former_window.horizon is
'Transactions below this one may still note keys by it; null: cleanup has not found out yet.';
comment on column pgq.former_window.ends_at is
'From then on none of its keys counts any more; null: such transactions may still run.';

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
'Messages that nobody can reach any more in segments that are never truncated: what a topic or queue
without a retention leaves when it is dropped. Cleanup deletes them.';
comment on column pgq.dropped_range.partition_id is 'Whose messages they were.';
comment on column pgq.dropped_range.segment is 'The segment that holds them.';
comment on column pgq.dropped_range.first_offset is 'The first of them.';
comment on column pgq.dropped_range.last_offset is 'The last of them.';
comment on column pgq.dropped_range.queue_id is 'The queue whose jobs they were; null: a topic''s.';
comment on column pgq.dropped_range.noted_xid is
'The transaction that noted it, where others could still store more of them; null: nobody could.';
comment on column pgq.dropped_range.horizon is
'From this transaction on nobody could; null: cleanup has not found out yet.';

-- Partitions of topics and queues draw their ids from here, so that message needs no second key.
create sequence pgq.partition_id as bigint;

comment on sequence pgq.partition_id is
'Ids of topic partitions and of queues in the message store.';
