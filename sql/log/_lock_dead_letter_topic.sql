create function pgq._lock_dead_letter_topic(topic text, dead_letter_topic text)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    target_id bigint;
begin
    if dead_letter_topic is null then
        return null;
    end if;

    loop
        -- Both, so that two groups whose dead letters go to each other's topic cannot block each
        -- other.
        perform
        from pgq.topic as t
        where t.topic in (_lock_dead_letter_topic.topic, _lock_dead_letter_topic.dead_letter_topic)
        order by t.topic
        for no key update;

        -- Changed, though not what it says, so that whoever drops it by an older snapshot, which
        -- does not show the group, cannot lock it.
        update pgq.topic as t
        set updated_at = t.updated_at
        where t.topic = _lock_dead_letter_topic.dead_letter_topic
        returning t.topic_id
        into target_id;

        exit when target_id is not null;
        perform pgq._check_topic(dead_letter_topic);
    end loop;

    return target_id;
end
$$;

comment on function pgq._lock_dead_letter_topic(text, text) is
'Locks the topic that is to get the dead letters of a group, and the one that the group reads, until
the transaction ends, and returns the id of the first; null when there is none. Raises MQ001.';
