create function pgq.list_access(topic text default null, queue text default null)
returns setof pgq.access_info
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
begin
    if topic collate "C" <> '*' then
        perform pgq._check_access(topic collate "C", null, 'monitor');
    end if;
    if queue collate "C" <> '*' then
        perform pgq._check_access(null, queue collate "C", 'monitor');
    end if;

    return query
    select
        g.role, case when g.scope = 'topic' then coalesce(t.topic, '*') end,
        case when g.scope = 'queue' then coalesce(q.queue, '*') end, g.access, g.granted_by,
        g.granted_at
    from pgq.access_grant as g
    left join pgq.topic as t on t.topic_id = g.topic_id
    left join pgq.queue as q on q.queue_id = g.queue_id
    where (
        num_nonnulls(list_access.topic, list_access.queue) = 0
        or g.scope = 'topic' and coalesce(t.topic, '*') = list_access.topic collate "C"
        or g.scope = 'queue' and coalesce(q.queue, '*') = list_access.queue collate "C"
    )
    and (
        pgq._may(array[g.role])
        or pgq._may(pgq._granted(g.scope, coalesce(g.topic_id, g.queue_id, 0), 'admin'))
    )
    order by g.scope desc, coalesce(t.topic, q.queue, ''), g.role, g.access;
end
$$;

comment on function pgq.list_access(text, text) is
'Lists the access of roles to restricted topics and queues, as given by grant_access.
Of one topic and one queue, or of all when both are null (the default). A role sees its own grants,
and all grants of topics and queues that it administers; topic or queue * stands for all of them.
Errors: MQ001 unknown topic, MQ002 unknown queue.';
