create function pgq._lock_partition(
    topic text, partition integer, key text, may_stage boolean default false,
    tried integer default null
)
returns pgq._partition_state
language plpgsql volatile parallel unsafe
as $$
declare
    state pgq._partition_state;
    chosen integer := partition;
    start_at integer;
    below integer;
    above integer;
    partition_count integer;
begin
    if chosen is null and key is null then
        -- Take any free partition, starting at this session's hash position.
        start_at := coalesce(tried, pgq._hash_position());
        below := case when tried is null then start_at else 1023 end;
        above := case when tried is null then -1 else start_at end;

        loop
            select (pgq._state_of(p)).*
            into state
            from pgq.partition as p
            where p.topic = _lock_partition.topic
                and p.hash_position > above
                and p.hash_position <= below
                and not (p.deferred and may_stage)
                and (p.publishers is null or pgq._may(p.publishers))
            order by p.hash_position desc
            limit 1
            for no key update skip locked;

            exit when state.partition is not null or below = 1023;
            above := start_at;
            below := 1023;
        end loop;

        if state.partition is null then
            select p.partitions, p.deferred
            into partition_count, state.deferred
            from pgq.partition as p
            where p.topic = _lock_partition.topic
                and p.partition = 0 and (p.publishers is null or pgq._may(p.publishers));

            if state.deferred and may_stage then
                return null;
            end if;

            -- All are locked: wait for one that depends on this session's hash position.
            chosen := start_at % partition_count;
        end if;
    end if;

    if chosen is not null or key is not null then
        select (pgq._state_of(p)).*
        into state
        from pgq.partition as p
        where p.topic = _lock_partition.topic
            and p.partition = coalesce(
                chosen,
                (
                    select pgq._key_partition(key, q.partitions)
                    from pgq.partition as q
                    where q.topic = _lock_partition.topic and q.partition = 0
                )
            )
            and not (p.deferred and may_stage)
            and (p.publishers is null or pgq._may(p.publishers))
        for no key update;
    end if;

    if state.partition is null then
        perform pgq._check_access(topic, null, 'publish');
        perform pgq._fail_unknown_partition(t.topic, partition, t.partitions)
        from pgq.topic as t
        where t.topic = _lock_partition.topic and partition not between 0 and t.partitions - 1;

        select t.deferred
        into state.deferred
        from pgq.topic as t
        where t.topic = _lock_partition.topic;

        if state.deferred and may_stage then
            return null;
        end if;
        if state.deferred is not null then
            -- The topic was dropped and recreated while this call waited: retry.
            return pgq._lock_partition(topic, partition, key, may_stage);
        end if;

        perform pgq._fail_unknown_topic(topic);
    end if;

    if state.segment_until <= pgq._clock() then
        state := pgq._enter_segment(topic, state);
    end if;

    if state.deferred then
        -- Order: committed staged messages get their offsets before a direct append.
        perform pgq._assign(topic, state, null);
    end if;

    return state;
end
$$;

comment on function pgq._lock_partition(text, integer, text, boolean, integer) is
'Locks the partition for a message until the transaction ends, and returns its state: the named one,
else that of the key, else any that is free.
may_stage: return null for a deferred topic, without a lock; without it, the staged messages of the
partition get offsets first. tried: the caller has just found all partitions up to this hash
position locked. Raises MQ001, MQ007.';
