create function pgq._add_grant(scope text, topic_id bigint, queue_id bigint, role text, access text)
returns void
language sql volatile parallel unsafe
as $$
insert into pgq.access_grant (scope, topic_id, queue_id, role, access, granted_by, granted_at)
values (
    _add_grant.scope,
    _add_grant.topic_id,
    _add_grant.queue_id,
    _add_grant.role,
    _add_grant.access,
    pgq._caller(),
    pgq._clock()
)
on conflict do nothing
$$;

comment on function pgq._add_grant(text, bigint, bigint, text, text) is
'Records a grant, unless it exists already; without an id, one for all topics or all queues.';
