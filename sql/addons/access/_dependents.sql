create function pgq._dependents(scope text, target_id bigint)
returns table (kind text, name text, consumer_group text, made_by text)
language sql stable parallel safe
as $$
select d.kind, d.name, d.consumer_group, d.made_by
from (
    select 'subscription', s.subscription, null, s.made_by, 'topic', s.topic_id, 'consume'
    from pgq.subscription as s
    union all
    select 'subscription', s.subscription, null, s.made_by, 'queue', s.queue_id, 'publish'
    from pgq.subscription as s
    union all
    select 'schedule', s.schedule, null, s.made_by, 'topic', s.topic_id, 'publish'
    from pgq.schedule as s
    where not s.paused
    union all
    select 'schedule', s.schedule, null, s.made_by, 'queue', s.queue_id, 'publish'
    from pgq.schedule as s
    where not s.paused
    union all
    select 'group', t.topic, g.consumer_group, g.dead_letters_by, 'topic', l.topic_id, 'publish'
    from pgq.consumer_group as g
    inner join pgq.topic as t on t.topic_id = g.topic_id
    inner join pgq.topic as l on l.topic_id = g.dead_letter_topic_id
) as d (kind, name, consumer_group, made_by, scope, target_id, access)
left join pgq.topic as t on d.scope = 'topic' and t.topic_id = d.target_id
left join pgq.queue as q on d.scope = 'queue' and q.queue_id = d.target_id
where d.scope = _dependents.scope
    and d.target_id = coalesce(_dependents.target_id, d.target_id)
    and d.made_by is not null
    and (
        to_regrole(quote_ident(d.made_by)) is null
        or coalesce(t.restricted, q.restricted)
        and not pgq._has_role(d.made_by, pgq._granted(d.scope, d.target_id, d.access))
    )
$$;

comment on function pgq._dependents(text, bigint) is
'Subscriptions, active schedules and consumer groups with a dead-letter topic whose maker no longer
exists or lacks the access that they need: of the topic or queue with this id, or of all when it is
null.';
