create table pgq.subscription (
    subscription text collate "C" primary key,
    topic_id bigint not null references pgq.topic (topic_id) on delete cascade,
    queue_id bigint not null references pgq.queue (queue_id) on delete cascade,
    filter jsonb,
    routing_key text collate "C",
    routing_regex text collate "C",
    created_at timestamptz not null,
    made_by text collate "C",
    unique (topic_id, queue_id)
);

create index subscription_queue on pgq.subscription (queue_id);

comment on table pgq.subscription is
'Subscriptions: each message of a topic that matches becomes a job of a queue.
Publishers read it after locking their partition; a change updates all partitions of the topic.';
comment on column pgq.subscription.subscription is 'Name of the subscription.';
comment on column pgq.subscription.filter is
'For each header name, the values that it may have; null: any message.';
comment on column pgq.subscription.routing_key is
'The AMQP pattern that the header routing_key has to match; null: any message.';
comment on column pgq.subscription.routing_regex is 'routing_key as a regular expression.';
comment on column pgq.subscription.created_at is 'Time of creation.';
comment on column pgq.subscription.made_by is 'The role that made it; null: the owner of pgq.';
