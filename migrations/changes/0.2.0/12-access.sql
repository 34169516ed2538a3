-- Access per topic and queue.
alter table pgq.topic
add column restricted boolean not null default false,
add column made_by text collate "C";

alter table pgq.consumer_group add column dead_letters_by text collate "C";

alter table pgq.partition
add column publishers text[] collate "C",
add column consumers text[] collate "C";

alter table pgq.queue
add column restricted boolean not null default false,
add column publishers text[] collate "C",
add column consumers text[] collate "C",
add column made_by text collate "C";

alter type pgq.topic_info add attribute restricted boolean;
alter type pgq.queue_info add attribute restricted boolean;

create type pgq.access_info as (
    role text,
    topic text,
    queue text,
    access text,
    granted_by text,
    granted_at timestamptz
);

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

create table pgq.access_change (
    only_row boolean primary key default true check (only_row),
    changed_at timestamptz not null
);

insert into pgq.access_change (changed_at)
values ('-infinity');

create table pgq.acting (
    xid bigint primary key
);
