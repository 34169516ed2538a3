create table pgq.topic (
    topic_id bigint generated always as identity primary key,
    topic text collate "C" not null unique,
    partitions integer not null,
    storage_class_id bigint not null references pgq.storage_class (storage_class_id),
    notify boolean not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    idempotency_window interval not null default '1 day',
    deferred boolean not null default false,
    restricted boolean not null default false,
    made_by text collate "C",
    max_message_bytes integer not null
);

comment on table pgq.topic is 'A topic: a log of messages in one or more partitions.';
comment on column pgq.topic.topic is 'Name of the topic.';
comment on column pgq.topic.partitions is 'Number of partitions; they are numbered from 0.';
comment on column pgq.topic.storage_class_id is
'Storage class, which sets how long messages are kept.';
comment on column pgq.topic.notify is 'Whether a publish notifies the channel pgq_topic.';
comment on column pgq.topic.created_at is 'When it was created.';
comment on column pgq.topic.updated_at is 'When its settings last changed.';
comment on column pgq.topic.idempotency_window is
'How long an idempotency key stands for the first message published with it.';
comment on column pgq.topic.restricted is
'Whether only roles with a grant may use it, see grant_access.';
comment on column pgq.topic.max_message_bytes is
'Limit of the size of a message, in bytes; see create_topic.';
comment on column pgq.topic.made_by is
'Role that created it, which may restrict it; null: the owner of pgq.';
comment on column pgq.topic.deferred is
'Whether messages are staged when they are published, and get offsets when they are consumed.';

-- Denormalized: has the topic's columns that a publisher needs, so that it finds, reads and locks
-- one row by one index.
create table pgq.partition (
    topic_id bigint not null references pgq.topic (topic_id) on delete cascade,
    partition integer not null,
    partition_id bigint not null unique,
    topic text collate "C" not null,
    partitions integer not null,
    hash_position integer not null,
    has_delivery boolean not null,
    segment integer not null,
    segment_first_offset bigint not null,
    segment_entered_at timestamptz not null,
    segment_until timestamptz not null,
    deferred boolean not null default false,
    left_segments integer[] not null default '{}',
    publish_position integer generated always as (
        case when not deferred then hash_position end
    ) stored,
    publishers text[] collate "C",
    consumers text[] collate "C",
    stored_partition_id bigint not null,
    primary key (topic_id, partition),
    unique (topic, partition)
);

create index partition_hash_position on pgq.partition (topic, hash_position);
create index partition_publish_position on pgq.partition (topic, publish_position);

comment on table pgq.partition is
'One row per topic partition; a publisher locks it until commit, without changing it.';
comment on column pgq.partition.partition_id is 'Id of the partition in the message store.';
comment on column pgq.partition.topic is 'Name of the topic.';
comment on column pgq.partition.partitions is 'Number of partitions of the topic.';
comment on column pgq.partition.hash_position is
'Hash position of the partition, from 0 to 1023. A session that may take any partition takes the one
with the highest hash position at or below its own (see _hash_position).';
comment on column pgq.partition.has_delivery is
'Whether a publish must notify, deliver or measure every message, see _has_delivery.';
comment on column pgq.partition.segment is 'Segment that the next message goes to.';
comment on column pgq.partition.segment_first_offset is
'First offset that is or will be stored in this segment under stored_partition_id.';
comment on column pgq.partition.segment_entered_at is
'Lower bound of published_at of its messages in this segment.';
comment on column pgq.partition.segment_until is
'From this time on, a publisher checks whether the storage class has moved on to another segment.';
comment on column pgq.partition.deferred is
'Whether messages are staged first; then only the transaction that assigns offsets locks this row.';
comment on column pgq.partition.left_segments is
'Former segments that may still have staged messages; closing a segment removes it here.';
comment on column pgq.partition.publishers is
'Roles that may publish to it, see _settle_access; null: EXECUTE decides.';
comment on column pgq.partition.consumers is 'Roles that may read it; null: EXECUTE decides.';
comment on column pgq.partition.stored_partition_id is
'The partition_id under which messages are stored from segment_first_offset on: its own, or a new
one since extents of a bulk write were attached to the log.';
comment on column pgq.partition.publish_position is
'Hash position for publishers; null: the partition is deferred, and publishers do not lock it.';

create table pgq.segment_range (
    partition_id bigint not null references pgq.partition (partition_id) on delete cascade,
    first_offset bigint not null,
    segment integer not null,
    stored_partition_id bigint not null,
    shift bigint not null default 0,
    published_at timestamptz,
    primary key (partition_id, first_offset)
);

-- One index for truncating a segment, one for finding ranges by stored id.
create index segment_range_segment on pgq.segment_range (segment, partition_id, first_offset);
create index segment_range_stored on pgq.segment_range (stored_partition_id);

comment on table pgq.segment_range is
'Where the messages of a partition are stored: from first_offset up to that of the next row.
The message at an offset is the row of stored_partition_id with log_offset = offset - shift in that
segment.';
comment on column pgq.segment_range.first_offset is 'First offset of the range.';
comment on column pgq.segment_range.segment is 'Segment that holds the messages.';
comment on column pgq.segment_range.stored_partition_id is
'The partition_id of the stored rows: the partition''s own, or that of an extent, whose messages
were stored before their offsets were known.';
comment on column pgq.segment_range.shift is
'Added to the log_offset of a stored row to get the offset; 0 for rows the partition wrote itself.';
comment on column pgq.segment_range.published_at is
'When all messages of the range were published; null: each stored row has its own time.';

create table pgq.consumer_group (
    group_id bigint generated always as identity primary key,
    topic_id bigint not null references pgq.topic (topic_id) on delete cascade,
    consumer_group text collate "C" not null,
    out_of_range text not null check (out_of_range in ('error', 'skip')),
    created_at timestamptz not null,
    updated_at timestamptz not null,
    max_attempts integer,
    dead_letter_topic_id bigint references pgq.topic (topic_id),
    dead_letters_by text collate "C",
    unique (topic_id, consumer_group)
);

comment on table pgq.consumer_group is
'Consumers of one topic that share one position per partition.';
comment on column pgq.consumer_group.consumer_group is
'Name of the group, unique within the topic.';
comment on column pgq.consumer_group.out_of_range is
'Behaviour when retention has removed messages the group has not read: error, or skip them.';
comment on column pgq.consumer_group.dead_letters_by is
'Role that set the dead-letter topic; null: the owner of pgq.';
comment on column pgq.consumer_group.created_at is 'When it was created.';
comment on column pgq.consumer_group.updated_at is 'When its settings last changed.';
comment on column pgq.consumer_group.max_attempts is
'Attempts before a message goes to the dead-letter topic; null: no limit.';
comment on column pgq.consumer_group.dead_letter_topic_id is
'Dead-letter topic; null if there is no limit.';

-- Denormalized like partition: a member finds one row by one index.
create table pgq.group_partition (
    group_id bigint not null references pgq.consumer_group (group_id) on delete cascade,
    partition integer not null,
    topic text collate "C" not null,
    consumer_group text collate "C" not null,
    partition_id bigint not null,
    out_of_range text not null,
    trimmed_seq bigint not null default 0,
    max_attempts integer,
    primary key (group_id, partition),
    unique (topic, consumer_group, partition),
    unique (partition_id, consumer_group)
);

comment on table pgq.group_partition is
'One row per group and partition; a member locks it while it moves the position.';
comment on column pgq.group_partition.partition is 'Number of the partition, from 0.';
comment on column pgq.group_partition.topic is 'Name of the topic.';
comment on column pgq.group_partition.consumer_group is 'Name of the group.';
comment on column pgq.group_partition.partition_id is 'Id of the partition.';
comment on column pgq.group_partition.out_of_range is 'Setting of the group.';
comment on column pgq.group_partition.trimmed_seq is
'Journal rows below this seq were removed. Trimming updates this row, so that a member with an older
snapshot cannot lock it.';
comment on column pgq.group_partition.max_attempts is 'Setting of the group.';

create table pgq.group_position (
    group_id bigint not null,
    partition integer not null,
    seq bigint not null,
    first_offset bigint not null,
    next_offset bigint not null,
    recorded_at timestamptz not null,
    leased_until timestamptz,
    lease_token uuid,
    lease_last_offset bigint,
    attempts pgq._attempts,
    primary key (group_id, partition, seq)
);

comment on table pgq.group_position is
'Journal of the positions of groups: the row with the highest seq is current; cleanup trims old
rows.';
comment on column pgq.group_position.seq is
'Rises by one with every change of the position or its lease.';
comment on column pgq.group_position.first_offset is 'Position before this change.';
comment on column pgq.group_position.next_offset is 'Position: the offset that is read next.';
comment on column pgq.group_position.recorded_at is 'When the change was made.';
comment on column pgq.group_position.leased_until is
'End of a member''s lease or, without a token, of the delay after a nack; null: neither.';
comment on column pgq.group_position.lease_token is 'Token that poll returned to the member.';
comment on column pgq.group_position.lease_last_offset is
'Last offset that poll returned to the member.';
comment on column pgq.group_position.attempts is
'Attempts at next_offset; null: they are not counted.';
