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
    restricted boolean
);

comment on type pgq.topic_info is 'A topic and its settings.';
comment on column pgq.topic_info.topic is 'Its name.';
comment on column pgq.topic_info.partitions is 'The number of its partitions.';
comment on column pgq.topic_info.retention is
'How long a message is kept at least, but for max_bytes; null: for ever.';
comment on column pgq.topic_info.max_bytes is
'How many bytes are kept at least when the oldest messages go early; null: no limit.';
comment on column pgq.topic_info.notify is 'Whether a publish notifies the channel pgq_topic.';
comment on column pgq.topic_info.created_at is 'When it was made.';
comment on column pgq.topic_info.updated_at is 'When its settings last changed.';
comment on column pgq.topic_info.idempotency_window is
'How long an idempotency key stands for the message that it was given with.';
comment on column pgq.topic_info.deferred is
'Whether messages get their offsets not when they are published, but when somebody consumes.';
comment on column pgq.topic_info.restricted is
'Whether only roles with a grant may use it; see grant_access.';

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
comment on column pgq.group_info.topic is 'The topic that it reads.';
comment on column pgq.group_info.consumer_group is 'Its name.';
comment on column pgq.group_info.out_of_range is
'What happens when retention removed messages it has not read: error or skip.';
comment on column pgq.group_info.created_at is 'When it was made.';
comment on column pgq.group_info.updated_at is 'When its settings last changed.';
comment on column pgq.group_info.max_attempts is
'Attempts before a message goes to the dead-letter topic; null: no limit.';
comment on column pgq.group_info.dead_letter_topic is
'Where it goes; null where there is no limit.';

create type pgq.message_record as (
    partition integer,
    log_offset bigint,
    published_at timestamptz,
    key text,
    headers jsonb,
    payload jsonb,
    body bytea
);

comment on type pgq.message_record is 'A message as consumers get it.';
comment on column pgq.message_record.partition is 'The number of its partition, from 0.';
comment on column pgq.message_record.log_offset is 'Its offset in the partition, from 1.';
comment on column pgq.message_record.published_at is 'When it was published.';
comment on column pgq.message_record.key is 'Its key; null: none.';
comment on column pgq.message_record.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.message_record.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.message_record.body is
'Its content as raw bytes; null when it has a payload.';

create type pgq.packed_messages as (
    first_offset bigint,
    messages integer,
    contents bytea[], -- noqa: LT01
    keys bytea[], -- noqa: LT01
    published_micros bigint[], -- noqa: LT01
    headers text[] -- noqa: LT01
);

comment on type pgq.packed_messages is
'Messages of a partition that follow each other, a column of them in each array.';
comment on column pgq.packed_messages.first_offset is 'The offset of the first one, from 1.';
comment on column pgq.packed_messages.messages is 'How many there are.';
comment on column pgq.packed_messages.contents is
'The body of each, or its payload as JSON in UTF-8.';
comment on column pgq.packed_messages.keys is 'Their keys in UTF-8; null: none has a key.';
comment on column pgq.packed_messages.published_micros is
'When each was published, in microseconds since 1970.';
comment on column pgq.packed_messages.headers is
'The headers of each, a JSON array with an array of key and value for each header, and several of
them for one key whose value is an array of texts; null: none has headers.';

create type pgq.publish_result as (
    partition integer,
    log_offset bigint,
    duplicate boolean
);

comment on type pgq.publish_result is 'Where a message stands that was published, now or before.';
comment on column pgq.publish_result.partition is 'The number of its partition, from 0.';
comment on column pgq.publish_result.log_offset is
'Its offset in the partition, from 1; null: it has none yet.';
comment on column pgq.publish_result.duplicate is
'Whether it had been published before, with the same idempotency key, and stands there since then.';

create type pgq.publish_batch_result as (
    partition integer,
    first_offset bigint,
    last_offset bigint,
    duplicate boolean
);

comment on type pgq.publish_batch_result is
'Where messages of a batch stand that follow each other in one partition.';
comment on column pgq.publish_batch_result.partition is 'The number of the partition, from 0.';
comment on column pgq.publish_batch_result.first_offset is
'The offset of the first one; null: they have none yet.';
comment on column pgq.publish_batch_result.last_offset is
'The offset of the last one; null: they have none yet.';
comment on column pgq.publish_batch_result.duplicate is
'Whether they had been published before, with the same idempotency keys, and stand there since
then.';

create type pgq.seek_result as (
    partition integer,
    position bigint
);

comment on type pgq.seek_result is 'Where a consumer group reads next in a partition.';
comment on column pgq.seek_result.partition is 'The number of the partition, from 0.';
comment on column pgq.seek_result.position is 'The offset that the group reads next.';

create type pgq.offset_range as (
    partition integer,
    first_offset bigint,
    last_offset bigint
);

comment on type pgq.offset_range is 'Consecutive messages of one partition.';
comment on column pgq.offset_range.partition is 'The number of the partition, from 0.';
comment on column pgq.offset_range.first_offset is 'The offset of the first one.';
comment on column pgq.offset_range.last_offset is 'The offset of the last one.';

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
    attempt integer
);

comment on type pgq.leased_message is 'A message of a partition that the caller holds for a while.';
comment on column pgq.leased_message.lease_token is
'What commit_offset, extend_poll, release_poll and nack_offsets ask for.';
comment on column pgq.leased_message.leased_until is
'Until when the caller has the partition, by the clock of the server.';
comment on column pgq.leased_message.partition is 'The number of its partition, from 0.';
comment on column pgq.leased_message.log_offset is 'Its offset in the partition, from 1.';
comment on column pgq.leased_message.published_at is 'When it was published.';
comment on column pgq.leased_message.key is 'Its key; null: none.';
comment on column pgq.leased_message.headers is 'Its headers, a JSON object; null: none.';
comment on column pgq.leased_message.payload is 'Its content as JSON; null when it has a body.';
comment on column pgq.leased_message.body is
'Its content as raw bytes; null when it has a payload.';
comment on column pgq.leased_message.attempt is
'How many attempts there were at these messages, with this one; null: the group counts none.';

-- What the functions of the log hand to each other about a partition whose lock they hold.
create type pgq._partition_state as (
    partition integer,
    partition_id bigint,
    segment integer,
    segment_first_offset bigint,
    segment_entered_at timestamptz,
    segment_until timestamptz,
    followed boolean,
    deferred boolean,
    stored_partition_id bigint
);

comment on type pgq._partition_state is 'A partition whose row the caller has locked.';

create type pgq._attempts as (
    attempt integer,
    last_error text,
    tried_offset bigint,
    single_offset bigint
);

comment on type pgq._attempts is
'The attempts of a group at one position. In one column, as most groups have none: each column of a
table costs whoever inserts a row.';
comment on column pgq._attempts.attempt is
'How many there were, with the one under way; null: none.';
comment on column pgq._attempts.last_error is 'How the last of them failed; null: unknown.';
comment on column pgq._attempts.tried_offset is
'The last offset that any of them had; of no meaning below the position, or without attempts.';
comment on column pgq._attempts.single_offset is
'Up to this offset messages are given out one by one; of no meaning below the position.';

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
'The state of a group in a partition whose row the caller has locked.';

create type pgq._claim_state as (
    partition integer,
    partition_id bigint,
    first_offset bigint,
    last_offset bigint,
    segment integer,
    lease_token uuid,
    leased_until timestamptz,
    attempt integer,
    stored_partition_id bigint
);

comment on type pgq._claim_state is
'What a member of a group has just taken, and where it is stored.';

create type pgq._staged_since as (
    seq bigint,
    lowest bigint,
    late_xids xid8 array,
    next_xid xid8,
    open_xids xid8 array,
    system_identifier bigint
);

comment on type pgq._staged_since is
'Where the messages of a partition stand that were staged since offsets were given last: in rows
whose partition_id is lowest or more, or that of one of late_xids, the transactions that were open
then; and what to note when they have theirs.';
