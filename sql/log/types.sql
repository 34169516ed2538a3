create type pgq.topic_info as (
    topic text,
    partitions integer,
    retention interval,
    max_bytes bigint,
    notify boolean,
    created_at timestamptz,
    updated_at timestamptz,
    idempotency_window interval,
    deferred boolean,
    restricted boolean,
    max_message_bytes integer
);

comment on type pgq.topic_info is 'A topic and its settings.';
comment on column pgq.topic_info.topic is 'Name of the topic.';
comment on column pgq.topic_info.partitions is 'Number of partitions.';
comment on column pgq.topic_info.retention is
'How long a message is kept at least, unless max_bytes removes it earlier; null: no limit.';
comment on column pgq.topic_info.max_bytes is
'Bytes that are kept at least when the oldest messages are removed early; null: no limit.';
comment on column pgq.topic_info.notify is 'Whether a publish notifies the channel pgq_topic.';
comment on column pgq.topic_info.created_at is 'When it was created.';
comment on column pgq.topic_info.updated_at is 'When its settings last changed.';
comment on column pgq.topic_info.idempotency_window is
'How long an idempotency key stands for the first message published with it.';
comment on column pgq.topic_info.deferred is
'Whether messages get their offsets when they are consumed, not when they are published.';
comment on column pgq.topic_info.restricted is
'Whether only roles with a grant may use it; see grant_access.';
comment on column pgq.topic_info.max_message_bytes is
'Largest content of a message, in bytes.';

create type pgq.group_info as (
    topic text,
    consumer_group text,
    out_of_range text,
    created_at timestamptz,
    updated_at timestamptz,
    max_attempts integer,
    dead_letter_topic text
);

comment on type pgq.group_info is 'A consumer group and its settings.';
comment on column pgq.group_info.topic is 'Topic that it reads.';
comment on column pgq.group_info.consumer_group is 'Name of the group.';
comment on column pgq.group_info.out_of_range is
'Behaviour when retention has removed messages that it has not read: error or skip.';
comment on column pgq.group_info.created_at is 'When it was created.';
comment on column pgq.group_info.updated_at is 'When its settings last changed.';
comment on column pgq.group_info.max_attempts is
'Attempts before a message goes to the dead-letter topic; null: no limit.';
comment on column pgq.group_info.dead_letter_topic is
'Dead-letter topic; null if there is no limit.';

create type pgq.message_record as (
    partition integer,
    log_offset bigint,
    published_at timestamptz,
    key text,
    headers jsonb,
    payload jsonb,
    body bytea,
    cut_short boolean
);

comment on type pgq.message_record is 'A message as consumers get it.';
comment on column pgq.message_record.partition is 'Partition of the message, from 0.';
comment on column pgq.message_record.log_offset is 'Offset in the partition, from 1.';
comment on column pgq.message_record.published_at is 'When it was published.';
comment on column pgq.message_record.key is 'Key; null: none.';
comment on column pgq.message_record.headers is 'Headers, a JSON object; null: none.';
comment on column pgq.message_record.payload is
'Content as JSON; null when the message has a body.';
comment on column pgq.message_record.body is
'Content as raw bytes; null when the message has a payload.';
comment on column pgq.message_record.cut_short is
'Whether max_bytes left out messages that max_messages would allow: ask again at once.';

create type pgq.packed_messages as (
    first_offset bigint,
    messages integer,
    contents bytea[], -- noqa: LT01
    keys bytea[], -- noqa: LT01
    published_micros bigint[], -- noqa: LT01
    headers text[] -- noqa: LT01
);

comment on type pgq.packed_messages is
'Consecutive messages of a partition, with one array per column.';
comment on column pgq.packed_messages.first_offset is 'Offset of the first message, from 1.';
comment on column pgq.packed_messages.messages is 'Number of messages.';
comment on column pgq.packed_messages.contents is
'Body of each message, or its payload as JSON in UTF-8.';
comment on column pgq.packed_messages.keys is 'Key of each message in UTF-8; null: none has a key.';
comment on column pgq.packed_messages.published_micros is
'When each message was published, in microseconds since 1970.';
comment on column pgq.packed_messages.headers is
'Headers of each message: a JSON array of objects with key and value; a key whose value is an array
of several texts has an object for each. Null: no message has headers.';

create type pgq.publish_result as (
    partition integer,
    log_offset bigint,
    duplicate boolean
);

comment on type pgq.publish_result is
'Partition and offset of a message that was published, now or before.';
comment on column pgq.publish_result.partition is 'Partition, from 0.';
comment on column pgq.publish_result.log_offset is
'Offset in the partition, from 1; null: not assigned yet (deferred topic).';
comment on column pgq.publish_result.duplicate is
'Whether the message was published before, with the same idempotency key; this is its offset.';

create type pgq.publish_batch_result as (
    partition integer,
    first_offset bigint,
    last_offset bigint,
    duplicate boolean
);

comment on type pgq.publish_batch_result is 'Consecutive messages of a batch in one partition.';
comment on column pgq.publish_batch_result.partition is 'Partition, from 0.';
comment on column pgq.publish_batch_result.first_offset is
'Offset of the first message; null: not assigned yet (deferred topic).';
comment on column pgq.publish_batch_result.last_offset is
'Offset of the last message; null: not assigned yet (deferred topic).';
comment on column pgq.publish_batch_result.duplicate is
'Whether the messages were published before, with the same idempotency keys; these are their
offsets.';

create type pgq.seek_result as (
    partition integer,
    position bigint
);

comment on type pgq.seek_result is 'Position of a consumer group in a partition.';
comment on column pgq.seek_result.partition is 'Partition, from 0.';
comment on column pgq.seek_result.position is 'Offset that the group reads next.';

create type pgq.offset_range as (
    partition integer,
    first_offset bigint,
    last_offset bigint
);

comment on type pgq.offset_range is 'Consecutive messages of one partition.';
comment on column pgq.offset_range.partition is 'Partition, from 0.';
comment on column pgq.offset_range.first_offset is 'Offset of the first message.';
comment on column pgq.offset_range.last_offset is 'Offset of the last message.';

create type pgq.leased_message as (
    lease_token uuid,
    leased_until timestamptz,
    partition integer,
    log_offset bigint,
    published_at timestamptz,
    key text,
    headers jsonb,
    payload jsonb,
    body bytea,
    attempt integer,
    cut_short boolean
);

comment on type pgq.leased_message is 'A message of a partition that is leased to the caller.';
comment on column pgq.leased_message.lease_token is
'Token for commit_offset, extend_poll, release_poll and nack_offsets.';
comment on column pgq.leased_message.leased_until is
'End of the lease, by the clock of the server.';
comment on column pgq.leased_message.partition is 'Partition of the message, from 0.';
comment on column pgq.leased_message.log_offset is 'Offset in the partition, from 1.';
comment on column pgq.leased_message.published_at is 'When it was published.';
comment on column pgq.leased_message.key is 'Key; null: none.';
comment on column pgq.leased_message.headers is 'Headers, a JSON object; null: none.';
comment on column pgq.leased_message.payload is
'Content as JSON; null when the message has a body.';
comment on column pgq.leased_message.body is
'Content as raw bytes; null when the message has a payload.';
comment on column pgq.leased_message.attempt is
'Number of attempts at these messages, including this one; null: the group counts none.';
comment on column pgq.leased_message.cut_short is
'Whether max_bytes left out messages that max_messages would allow: ask again at once.';

create type pgq._partition_state as (
    partition integer,
    partition_id bigint,
    segment integer,
    segment_first_offset bigint,
    segment_entered_at timestamptz,
    segment_until timestamptz,
    has_delivery boolean,
    deferred boolean,
    stored_partition_id bigint
);

comment on type pgq._partition_state is 'State of a partition whose row the caller has locked.';

create type pgq._attempts as (
    attempt integer,
    last_error text,
    tried_offset bigint,
    single_offset bigint
);

comment on type pgq._attempts is
'Attempts of a group at one position. One composite column, as most groups have none, and every
column of a table adds to the cost of an insert.';
comment on column pgq._attempts.attempt is
'Number of attempts, including the current one; null: none.';
comment on column pgq._attempts.last_error is 'Error of the last failed attempt; null: unknown.';
comment on column pgq._attempts.tried_offset is
'Highest last offset of these attempts; meaningless below the position, or without attempts.';
comment on column pgq._attempts.single_offset is
'Messages up to this offset are delivered one by one; meaningless below the position.';

create type pgq._group_state as (
    group_id bigint,
    partition integer,
    partition_id bigint,
    segment integer,
    segment_first_offset bigint,
    out_of_range text,
    seq bigint,
    next_offset bigint,
    leased_until timestamptz,
    lease_token uuid,
    lease_last_offset bigint,
    last_offset bigint,
    max_attempts integer,
    attempt integer,
    last_error text,
    tried_offset bigint,
    single_offset bigint,
    stored_partition_id bigint
);

comment on type pgq._group_state is
'State of a group in a partition whose row the caller has locked.';

create type pgq._claim_state as (
    partition integer,
    partition_id bigint,
    first_offset bigint,
    last_offset bigint,
    segment integer,
    lease_token uuid,
    leased_until timestamptz,
    attempt integer,
    stored_partition_id bigint,
    cut_short boolean
);

comment on type pgq._claim_state is
'Messages that a member of a group has just claimed, and where they are stored.';

create type pgq._fetch_range as (
    partition integer,
    partition_id bigint,
    first_offset bigint,
    last_offset bigint,
    newest_offset bigint,
    out_of_range text,
    cut_short boolean
);

comment on type pgq._fetch_range is 'What fetch returns of a partition.';
