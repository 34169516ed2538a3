create type pgq.subscription_info as (
    subscription text,
    topic text,
    queue text,
    filter jsonb,
    routing_key text,
    created_at timestamptz,
    made_by text
);

comment on type pgq.subscription_info is 'A subscription and its settings.';
comment on column pgq.subscription_info.subscription is 'Name of the subscription.';
comment on column pgq.subscription_info.topic is
'The topic whose messages are delivered; null: hidden from the caller, an admin of the queue.';
comment on column pgq.subscription_info.queue is
'The queue that gets a job for each message; null: hidden from the caller, an admin of the topic.';
comment on column pgq.subscription_info.filter is
'For each header name, the values that it may have; null: any message.';
comment on column pgq.subscription_info.routing_key is
'The AMQP pattern that the header routing_key has to match; null: any message.';
comment on column pgq.subscription_info.created_at is 'Time of creation.';
comment on column pgq.subscription_info.made_by is
'The role that made it, whose access it depends on; null: the owner of pgq.';
