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
        -- Deadlock: two groups may use each other's topic for dead letters. Lock both, by name.
        perform
        from pgq.topic as t
        where t.topic in (_lock_dead_letter_topic.topic, dead_letter_topic)
        order by t.topic
        for no key update;

        -- No-op update: a drop_topic with an older snapshot, which does not show the group, then
        -- fails with 40001.
        update pgq.topic as t
        set updated_at = t.updated_at
        where t.topic = dead_letter_topic
        returning t.topic_id
        into target_id;

        exit when target_id is not null;
        perform pgq._check_topic(dead_letter_topic);
    end loop;

    return target_id;
end
$$;

comment on function pgq._lock_dead_letter_topic(text, text) is
'Locks the dead-letter topic of a group and the topic that the group reads until the transaction
ends, and returns the id of the first; null if there is none. Raises MQ001.';
