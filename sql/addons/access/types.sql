create type pgq.access_info as (
    role text,
    topic text,
    queue text,
    access text,
    granted_by text,
    granted_at timestamptz
);

comment on type pgq.access_info is 'One access that a role has to a topic or a queue.';
comment on column pgq.access_info.role is 'The role; public: every role.';
comment on column pgq.access_info.topic is
'The topic; *: all topics; null: the grant is for a queue.';
comment on column pgq.access_info.queue is
'The queue; *: all queues; null: the grant is for a topic.';
comment on column pgq.access_info.access is
'publish, consume, monitor (see names and figures), or admin for all of them and settings.';
comment on column pgq.access_info.granted_by is 'The role that granted it.';
comment on column pgq.access_info.granted_at is 'When it was granted.';
