create function pgq._group_info(topic text, consumer_group text)
returns setof pgq.group_info
language sql stable parallel safe rows 1
as $$
select
    t.topic, g.consumer_group, g.out_of_range, g.created_at, g.updated_at, g.max_attempts, d.topic
from pgq.topic as t
inner join pgq.consumer_group as g on g.topic_id = t.topic_id
left join pgq.topic as d on d.topic_id = g.dead_letter_topic_id
where t.topic = _group_info.topic and g.consumer_group = _group_info.consumer_group
$$;

comment on function pgq._group_info(text, text) is
'Returns a consumer group and its settings; no row if it does not exist.';
