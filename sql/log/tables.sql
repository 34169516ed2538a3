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
    made_by text collate "C"
);

comment on table pgq.topic is 'A log of messages in one or more partitions.';
comment on column pgq.topic.topic is 'Its name.';
comment on column pgq.topic.partitions is
'The number of its partitions, which are numbered from 0.';
comment on column pgq.topic.storage_class_id is 'How long its messages are kept.';
comment on column pgq.topic.notify is 'Whether a publish notifies the channel pgq_topic.';
comment on column pgq.topic.created_at is 'When it was made.';
comment on column pgq.topic.updated_at is 'When its settings last changed.';
comment on column pgq.topic.idempotency_window is
'How long an idempotency key stands for the message that it was given with.';
comment on column pgq.topic.restricted is
'Whether only roles with a grant may use it, see grant_access.';
comment on column pgq.topic.made_by is
'The role that made it, which may restrict it; null: the owner of pgq.';
comment on column pgq.topic.deferred is
'Whether messages are staged when they are published, and get offsets when somebody consumes.';

-- What a publisher needs of the topic stands here as well, so that it finds, reads and locks one
-- row by one index.
create table pgq.partition (
    topic_id bigint not null references pgq.topic (topic_id) on delete cascade,
    partition integer not null,
    partition_id bigint not null unique,
    topic text collate "C" not null,
    partitions integer not null,
    ring integer not null,
    followed boolean not null,
    segment integer not null,
    segment_first_offset bigint not null,
    segment_entered_at timestamptz not null,
    segment_until timestamptz not null,
    deferred boolean not null default false,
    left_segments integer[] not null default '{}',
    publish_ring integer generated always as (case when not deferred then ring end) stored,
    publishers text[] collate "C",
    consumers text[] collate "C",
    stored_partition_id bigint not null,
    primary key (topic_id, partition),
    unique (topic, partition)
);

create index partition_ring on pgq.partition (topic, ring);
create index partition_publish_ring on pgq.partition (topic, publish_ring);

comment on table pgq.partition is
'One row per topic partition; a publisher locks it until commit, and does not change it.';
comment on column pgq.partition.partition_id is 'Its id in the message store.';
comment on column pgq.partition.topic is 'The name of its topic.';
comment on column pgq.partition.partitions is 'The number of partitions that its topic has.';
comment on column pgq.partition.ring is
'Where it stands between 0 and 1023. Whoever may take any partition takes the one at or below a
number of its own.';
comment on column pgq.partition.followed is
'Whether somebody is told of a publish: its topic says notify, or has subscriptions.';
comment on column pgq.partition.segment is 'The segment that its next message goes to.';
comment on column pgq.partition.segment_first_offset is
'The first offset that is or will be stored in this segment under stored_partition_id.';
comment on column pgq.partition.segment_entered_at is
'No message in this segment is published earlier.';
comment on column pgq.partition.segment_until is
'From then on a publisher looks whether the storage class writes to another segment by now.';
comment on column pgq.partition.deferred is
'Whether messages are staged first; then only whoever gives them their offsets locks this row.';
comment on column pgq.partition.left_segments is
'Segments that it wrote to before, where staged messages may still stand; closing one removes it.';
comment on column pgq.partition.publishers is
'The roles that may publish to it, see _settle_access; null: EXECUTE decides.';
comment on column pgq.partition.consumers is 'The roles that may read it; null: EXECUTE decides.';
comment on column pgq.partition.stored_partition_id is
'Under which partition_id its messages are stored now, from segment_first_offset on: its own, or
another one since runs of a bulk write were taken into the log.';
comment on column pgq.partition.publish_ring is
'The same for publishers; null: deferred, and no publisher locks it.';

-- A journal, as group_position: the row with the highest seq counts. Nothing is lost without it: a
-- staged message is one that has not been moved yet, and where this does not say from where to look
-- for such ones, all are looked through.
create table pgq.assignment (
    partition_id bigint not null,
    seq bigint not null,
    next_xid xid8 not null,
    open_xids xid8[] not null,
    server_started timestamptz not null,
    system_identifier bigint not null,
    primary key (partition_id, seq)
);

comment on table pgq.assignment is
'Up to where the staged messages of a partition have got their offsets.';
comment on column pgq.assignment.partition_id is 'The partition.';
comment on column pgq.assignment.seq is 'Rises by one each time.';
comment on column pgq.assignment.next_xid is
'What older transactions had published and committed is done.';
comment on column pgq.assignment.open_xids is 'Older transactions that were still open.';
comment on column pgq.assignment.server_started is
'When the server was started. Only when this has changed, system_identifier is looked at.';
comment on column pgq.assignment.system_identifier is
'Which server it was. On another one, after a restore perhaps, ids of transactions mean nothing.';

-- The order of staged messages; see _staged_since.
create sequence pgq.staged_number as bigint;

comment on sequence pgq.staged_number is
'Numbers of publishing calls to deferred topics, in the order of the calls.';

create table pgq.segment_range (
    partition_id bigint not null references pgq.partition (partition_id) on delete cascade,
    first_offset bigint not null,
    segment integer not null,
    stored_partition_id bigint not null,
    shift bigint not null default 0,
    published_at timestamptz,
    primary key (partition_id, first_offset)
);

-- By what is emptied, and by what is stored.
create index segment_range_segment on pgq.segment_range (segment, partition_id, first_offset);
create index segment_range_stored on pgq.segment_range (stored_partition_id);

comment on table pgq.segment_range is
'Where the messages of a partition are stored: from first_offset up to the next row''s.
The message of an offset is the row of stored_partition_id at log_offset = offset - shift in that
segment.';
comment on column pgq.segment_range.first_offset is 'The first offset stored in the segment.';
comment on column pgq.segment_range.segment is 'The segment that holds them.';
comment on column pgq.segment_range.stored_partition_id is
'Under which partition_id they are stored: the partition''s own, or that of a run of messages that
were stored before their place in the log was known.';
comment on column pgq.segment_range.shift is
'What is added to the log_offset of a stored row to get the offset; 0 in what a partition stored
itself.';
comment on column pgq.segment_range.published_at is
'When all of them were published; null: each stored row says when.';

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
'Readers of one topic that share one position per partition.';
comment on column pgq.consumer_group.consumer_group is 'Its name, unique within the topic.';
comment on column pgq.consumer_group.out_of_range is
'What happens when retention removed messages the group has not read: error, or skip them.';
comment on column pgq.consumer_group.dead_letters_by is
'The role that set the dead-letter topic; null: the owner of pgq.';
comment on column pgq.consumer_group.created_at is 'When it was made.';
comment on column pgq.consumer_group.updated_at is 'When its settings last changed.';
comment on column pgq.consumer_group.max_attempts is
'Attempts before a message goes to the dead-letter topic; null: no limit.';
comment on column pgq.consumer_group.dead_letter_topic_id is
'Where it goes; null where there is no limit.';

-- As in partition, a member finds one row by one index.
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
comment on column pgq.group_partition.partition is 'The number of the partition.';
comment on column pgq.group_partition.topic is 'The name of the topic.';
comment on column pgq.group_partition.consumer_group is 'The name of the group.';
comment on column pgq.group_partition.partition_id is 'The id of the partition.';
comment on column pgq.group_partition.out_of_range is 'What the group says.';
comment on column pgq.group_partition.trimmed_seq is
'Rows of the journal below this seq were removed. Trimming changes this row, so that a member whose
snapshot is older cannot lock it.';
comment on column pgq.group_partition.max_attempts is 'What the group says.';

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
'The positions of groups, as a journal: the row with the highest seq counts, cleanup trims old
ones.';
comment on column pgq.group_position.seq is
'Rises by one with every change of the position or its lease.';
comment on column pgq.group_position.first_offset is 'The position before this change.';
comment on column pgq.group_position.next_offset is 'The offset that is read next.';
comment on column pgq.group_position.recorded_at is 'When the change was made.';
comment on column pgq.group_position.leased_until is
'Until when a member has the partition, or without a token nobody gets it; null: neither.';
comment on column pgq.group_position.lease_token is 'The token that poll gave to that member.';
comment on column pgq.group_position.lease_last_offset is
'The last offset that poll gave to that member.';
comment on column pgq.group_position.attempts is
'The attempts that there were at next_offset; null: they are not counted.';
