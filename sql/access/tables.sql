create table pgq.access_grant (
    grant_id bigint generated always as identity primary key,
    scope text collate "C" not null check (scope in ('topic', 'queue')),
    topic_id bigint references pgq.topic (topic_id) on delete cascade,
    queue_id bigint references pgq.queue (queue_id) on delete cascade,
    role text collate "C" not null,
    access text collate "C" not null check (access in ('publish', 'consume', 'monitor', 'admin')),
    granted_by text collate "C" not null,
    granted_at timestamptz not null
);

create unique index access_grant_target on pgq.access_grant (
    scope, coalesce(topic_id, queue_id, 0), role, access
);
create index access_grant_topic on pgq.access_grant (topic_id) where topic_id is not null;
create index access_grant_queue on pgq.access_grant (queue_id) where queue_id is not null;

comment on table pgq.access_grant is
'What roles may do with restricted topics and queues. What publish and claims ask for stands in the
rows that they read anyway, see _settle_access.';
comment on column pgq.access_grant.grant_id is 'Its id.';
comment on column pgq.access_grant.scope is 'Whether it is about topics or queues.';
comment on column pgq.access_grant.topic_id is 'The topic; null: all topics, or a queue.';
comment on column pgq.access_grant.queue_id is 'The queue; null: all queues, or a topic.';
comment on column pgq.access_grant.role is
'The role, by its name, so that a dump can be restored where its id is another; public: all roles.';
comment on column pgq.access_grant.access is 'publish, consume, monitor, or admin for all of them.';
comment on column pgq.access_grant.granted_by is 'Who granted it.';
comment on column pgq.access_grant.granted_at is 'When.';

-- One row, which every change of access updates before anything else: so changes are one after the
-- other, and one with an older snapshot raises 40001.
create table pgq.access_change (
    only_row boolean primary key default true check (only_row),
    changed_at timestamptz not null
);

insert into pgq.access_change (changed_at)
values ('-infinity');

comment on table pgq.access_change is
'One row, which every change of access updates before anything else.';
comment on column pgq.access_change.only_row is 'There is one row.';
comment on column pgq.access_change.changed_at is 'When access was changed last.';

create table pgq.acting (
    xid bigint primary key
);

comment on table pgq.acting is
'Transactions that publish or enqueue what somebody else has allowed, see _act_for. No row of it is
ever committed.';
comment on column pgq.acting.xid is 'The transaction.';

create table pgq.view_key (
    key uuid not null
);

-- A key of one row would be slower to look up than the row. Why it is needed: see bulk_producer.
alter table pgq.view_key replica identity full;

insert into pgq.view_key (key)
values (gen_random_uuid());

comment on table pgq.view_key is
'What the views show to the functions that they call. Who reads a view may call these, but does not
know the key.';
