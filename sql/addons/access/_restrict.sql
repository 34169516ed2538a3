create function pgq._restrict(
    topic text, queue text, restricted boolean, role text, access text, end_dependents boolean
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    kind text := case when topic is not null then 'topic' else 'queue' end;
    target_topic_id bigint;
    target_queue_id bigint;
    was_open boolean;
begin
    perform pgq._check_admin(topic, queue);
    if topic is not null then
        target_topic_id := pgq._lock_access(topic, null, end_dependents);
    else
        target_queue_id := pgq._lock_access(null, queue, end_dependents);
    end if;
    -- Check again under the lock: another transaction may have restricted it meanwhile.
    perform pgq._check_admin(topic, queue);

    was_open := exists (
        select from pgq.topic as t where t.topic_id = target_topic_id and not t.restricted
    ) or exists (
        select from pgq.queue as q where q.queue_id = target_queue_id and not q.restricted
    );
    if not restricted then
        delete from pgq.access_grant as g
        where g.topic_id = target_topic_id or g.queue_id = target_queue_id;
    elsif not pgq._may(pgq._granted(kind, coalesce(target_topic_id, target_queue_id), 'admin')) then
        -- The caller must not lose access to what it restricts.
        perform pgq._add_grant(kind, target_topic_id, target_queue_id, pgq._caller(), 'admin');
    end if;
    if role is not null then
        perform pgq._add_grant(kind, target_topic_id, target_queue_id, role, access);
    end if;

    perform pgq._settle_access(target_topic_id, target_queue_id, restricted);
    if was_open and restricted then
        perform pgq._end_dependents(
            kind, coalesce(target_topic_id, target_queue_id), end_dependents
        );
    end if;
end
$$;

comment on function pgq._restrict(text, text, boolean, text, text, boolean) is
'Restricts a topic or queue to the caller, unless it has admin access anyway, and to the given role;
or opens it and deletes its grants. Raises 2BP01, 42501, MQ001, MQ002.';
