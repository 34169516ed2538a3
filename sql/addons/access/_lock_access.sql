create function pgq._lock_access(topic text, queue text, end_dependents boolean)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    target_id bigint;
begin
    if pgq._caller() is null then
        raise exception 'permission denied to change access while a table is maintained'
            using errcode = '42501';
    end if;

    update pgq.access_change as c set changed_at = pgq._clock();

    if end_dependents then
        perform pgq._lock_dependents(topic, queue);
    end if;
    if topic is not null then
        return (pgq._lock_topic(topic)).topic_id;
    end if;

    while queue is not null loop
        select q.queue_id
        into target_id
        from pgq.queue as q
        where q.queue = _lock_access.queue
        for no key update;

        exit when target_id is not null;
        perform pgq._check_queue(queue);
    end loop;
    return target_id;
end
$$;

comment on function pgq._lock_access(text, text, boolean) is
'Starts a change of access and returns the id of the topic or queue. Until the transaction ends, it
blocks other changes of access, publishes to the topic and changes of the queue. Raises 42501,
MQ001, MQ002.';
