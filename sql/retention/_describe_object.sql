create function pgq._describe_object(part text, object bigint)
returns table (target text, administered boolean)
language sql stable parallel unsafe rows 1
as $$
select
    case
        when not pgq._may_use(t.topic, q.queue, 'monitor') then '(restricted)'
        else coalesce(
            w.write_id::text, q.queue, t.topic || coalesce('/' || g.consumer_group, ''),
            case when part = 'writes' and object = 0 then 'ended writes' end,
            case part
                when 'dropped messages' then 'partition_id '
                when 'truncation' then 'segment '
                when 'closing' then 'segment '
                when 'sealing' then 'storage class '
                else 'id '
            end || object
        )
    end,
    pgq._may('{}') or pgq._administers(t.topic, q.queue)
from (values (part, object)) as o (part, id)
left join pgq.bulk_write as w on o.part = 'writes' and w.bulk_write_id = o.id
left join pgq.consumer_group as g on o.part = 'positions' and g.group_id = o.id
left join pgq.queue as q
    on q.queue_id = case when o.part in ('jobs', 'subscriptions') then o.id else w.queue_id end
left join pgq.topic as t
    on t.topic_id = case o.part when 'offsets' then o.id else coalesce(g.topic_id, w.topic_id) end
$$;

comment on function pgq._describe_object(text, bigint) is
'The name of an object of a part of cleanup, (restricted) when it is hidden from the caller, null
for the part as a whole; and whether the caller administers it, or else is an owner of pgq.';
