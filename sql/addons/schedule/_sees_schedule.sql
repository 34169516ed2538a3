create function pgq._sees_schedule(made_by text, topic_id bigint, queue_id bigint)
returns boolean
language sql stable parallel unsafe
as $$
select case
    when exists (select from pgq.topic as t where t.topic_id = _sees_schedule.topic_id)
        or exists (select from pgq.queue as q where q.queue_id = _sees_schedule.queue_id)
        then pgq._may_write(_sees_schedule.topic_id, _sees_schedule.queue_id)
    else pgq._may(
        pgq._granted(
            case when _sees_schedule.topic_id is not null then 'topic' else 'queue' end, 0, 'admin'
        )
        || _sees_schedule.made_by
    )
end
$$;

comment on function pgq._sees_schedule(text, bigint, bigint) is
'Whether the caller may see and change a schedule: it may publish to the target. If the target was
dropped, with its grants: it is the maker of the schedule, or administers all topics or all
queues.';
