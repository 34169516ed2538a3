create function pgq._settle_access(topic_id bigint, queue_id bigint, restricted boolean)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- Update the row of the topic in any case: a transaction with an older snapshot then gets 40001
    -- instead of adding partitions without the new access.
    update pgq.topic as t
    set restricted = _settle_access.restricted, updated_at = pgq._clock()
    where t.topic_id = _settle_access.topic_id;

    update pgq.partition as p
    set
        publishers = case
            when restricted then pgq._granted('topic', _settle_access.topic_id, 'publish')
        end,
        consumers = case
            when restricted then pgq._granted('topic', _settle_access.topic_id, 'consume')
        end
    where p.topic_id = _settle_access.topic_id;

    update pgq.queue as q
    set
        restricted = _settle_access.restricted, updated_at = pgq._clock(),
        publishers = case
            when _settle_access.restricted
                then pgq._granted('queue', _settle_access.queue_id, 'publish')
        end,
        consumers = case
            when _settle_access.restricted
                then pgq._granted('queue', _settle_access.queue_id, 'consume')
        end
    where q.queue_id = _settle_access.queue_id;
end
$$;

comment on function pgq._settle_access(bigint, bigint, boolean) is
'Restricts or opens a topic or queue, and copies the roles that may publish and consume to the rows
that publishers and consumers read anyway. The caller holds the lock on it.';
