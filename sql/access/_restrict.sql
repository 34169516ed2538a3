create function pgq._restrict(topic text, queue text, restricted boolean)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target_topic_id bigint;
    target_queue_id bigint;
begin
    perform pgq._check_access(_restrict.topic, _restrict.queue, 'admin');
    if _restrict.topic is not null then
        target_topic_id := pgq._lock_access(_restrict.topic, null);
    else
        target_queue_id := pgq._lock_access(null, _restrict.queue);
    end if;
    -- Somebody may have restricted it in between.
    perform pgq._check_access(_restrict.topic, _restrict.queue, 'admin');

    if not _restrict.restricted then
        delete from pgq.access_grant as g
        where g.topic_id = target_topic_id
            or g.queue_id = target_queue_id;
    elsif not pgq._may(
        pgq._granted(
            case when _restrict.topic is not null then 'topic' else 'queue' end,
            coalesce(target_topic_id, target_queue_id),
            'admin'
        )
    )
    then
        -- It was open. Who restricts it is not to lose it.
        insert into pgq.access_grant (
            scope, topic_id, queue_id, role, access, granted_by, granted_at
        )
        values (
            case when _restrict.topic is not null then 'topic' else 'queue' end,
            target_topic_id,
            target_queue_id,
            pgq._caller(),
            'admin',
            pgq._caller(),
            pgq._clock()
        );
    end if;

    perform pgq._settle_access(target_topic_id, target_queue_id, _restrict.restricted);
end
$$;

comment on function pgq._restrict(text, text, boolean) is
'Restricts a topic or a queue, to the caller at first unless he is an owner of pgq, or opens it and
removes its grants. Raises 42501, MQ001, MQ002.';
