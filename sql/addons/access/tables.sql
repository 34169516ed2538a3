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
'Grants of access to restricted topics and queues. _settle_access copies what publish and claims
check to the rows that they read anyway.';
comment on column pgq.access_grant.grant_id is 'Id of the grant.';
comment on column pgq.access_grant.scope is 'topic or queue.';
comment on column pgq.access_grant.topic_id is 'The topic; null: all topics, or a queue.';
comment on column pgq.access_grant.queue_id is 'The queue; null: all queues, or a topic.';
comment on column pgq.access_grant.role is
'The role, by name: a dump can be restored where it has another id; public: every role.';
comment on column pgq.access_grant.access is 'publish, consume, monitor, or admin for all of them.';
comment on column pgq.access_grant.granted_by is 'The role that granted it.';
comment on column pgq.access_grant.granted_at is 'When it was granted.';

-- Every change of access updates the only row first: changes are serialized, and one with an older
-- snapshot raises 40001.
create table pgq.access_change (
    only_row boolean primary key default true check (only_row),
    changed_at timestamptz not null
);

insert into pgq.access_change (changed_at)
values ('-infinity');

comment on table pgq.access_change is
'One row, which every change of access updates first, so that changes are serialized.';
comment on column pgq.access_change.only_row is 'Always true: there is only one row.';
comment on column pgq.access_change.changed_at is 'When access was last changed.';
