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
comment on column pgq.subscription_info.subscription is 'Its name.';
comment on column pgq.subscription_info.topic is
'The topic whose messages it takes; null for an admin of the queue who may not know it.';
comment on column pgq.subscription_info.queue is
'The queue that gets a job for each of them; null for an admin of the topic who may not know it.';
comment on column pgq.subscription_info.filter is
'For names of headers the values that each may have; null: any message.';
comment on column pgq.subscription_info.routing_key is
'The pattern that the header routing_key has to match; null: any message.';
comment on column pgq.subscription_info.created_at is 'When it was made.';
comment on column pgq.subscription_info.made_by is
'The role that made it, and whose access it needs; null: the owner of pgq.';
