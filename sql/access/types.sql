create type pgq.access_info as (
    role text,
    topic text,
    queue text,
    access text,
    granted_by text,
    granted_at timestamptz
);

comment on type pgq.access_info is 'What a role may do with a topic or a queue.';
comment on column pgq.access_info.role is 'The role; public: every role.';
comment on column pgq.access_info.topic is 'The topic; *: all topics; null: it is about a queue.';
comment on column pgq.access_info.queue is 'The queue; *: all queues; null: it is about a topic.';
comment on column pgq.access_info.access is
'publish, consume, monitor (see names and figures), or admin for all of them and settings.';
comment on column pgq.access_info.granted_by is 'Who granted it.';
comment on column pgq.access_info.granted_at is 'When.';
