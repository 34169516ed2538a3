create function pgq.list_groups(topic text default null)
returns setof pgq.group_info
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
begin
    perform pgq._check_access(topic collate "C", null, 'monitor');
    if topic is not null
        and not exists (select from pgq.topic as t where t.topic = list_groups.topic collate "C")
    then
        perform pgq._fail_unknown_topic(topic collate "C");
    end if;

    return query
    select
        t.topic, g.consumer_group, g.out_of_range, g.created_at, g.updated_at, g.max_attempts,
        d.topic
    from pgq.topic as t
    inner join pgq.consumer_group as g on g.topic_id = t.topic_id
    left join pgq.topic as d on d.topic_id = g.dead_letter_topic_id
    where t.topic = coalesce(list_groups.topic collate "C", t.topic)
        and (
            not t.restricted
            or t.topic_id in (select unnest(pgq._visible('topic', 'monitor')))
            or pgq._administers(d.topic, null)
        )
    order by t.topic, g.consumer_group;
end
$$;

comment on function pgq.list_groups(text) is
'Returns the consumer groups of a topic, or of all topics, by name.
Without a topic, an admin of a dead-letter topic also sees the groups that use it.
Errors: MQ001 unknown topic.';
