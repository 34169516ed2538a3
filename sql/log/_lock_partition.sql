create function pgq._lock_partition(topic text, partition integer, key text)
returns pgq._partition_state
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    state pgq._partition_state;
    start_at integer;
begin
    if _lock_partition.partition is not null or _lock_partition.key is not null then
        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            t.segment,
            t.notify
        into state
        from pgq.topic as t
        inner join pgq.partition as p
            on p.topic_id = t.topic_id
            and p.partition = coalesce(
                _lock_partition.partition,
                (hashtextextended(_lock_partition.key, 0) % t.partitions + t.partitions)
                % t.partitions
            )
        where t.topic = _lock_partition.topic
        for no key update of p;
    else
        -- Sessions begin at different partitions, and all move on by one every second: so they
        -- seldom meet, and one publisher alone still fills every partition.
        start_at := (pg_backend_pid() + date_part('epoch', now())::bigint) % 1000000;

        select
            p.partition,
            p.partition_id,
            p.segment,
            p.segment_first_offset,
            p.segment_entered_at,
            t.segment,
            t.notify
        into state
        from pgq.topic as t
        inner join pgq.partition as p
            on p.topic_id = t.topic_id
            and p.partition = start_at % t.partitions
        where t.topic = _lock_partition.topic
        for no key update of p skip locked;

        if state.partition is null then
            select
                p.partition,
                p.partition_id,
                p.segment,
                p.segment_first_offset,
                p.segment_entered_at,
                t.segment,
                t.notify
            into state
            from pgq.topic as t
            inner join pgq.partition as p on p.topic_id = t.topic_id
            where t.topic = _lock_partition.topic
            order by (p.partition - start_at % t.partitions + t.partitions) % t.partitions
            limit 1
            for no key update of p skip locked;
        end if;

        if state.partition is null then
            -- All are held: wait for the one that this session began with.
            select s.*
            into state
            from pgq.topic as t
            cross join lateral pgq._lock_partition(t.topic, start_at % t.partitions, null) as s
            where t.topic = _lock_partition.topic;
        end if;
    end if;

    if state.partition is null then
        perform pgq._fail_unknown_partition(t.topic, _lock_partition.partition, t.partitions)
        from pgq.topic as t
        where t.topic = _lock_partition.topic
            and _lock_partition.partition not between 0 and t.partitions - 1;

        if exists (select from pgq.topic as t where t.topic = _lock_partition.topic) then
            -- It was dropped and made anew while this call waited for it.
            return pgq._lock_partition(
                _lock_partition.topic, _lock_partition.partition, _lock_partition.key
            );
        end if;

        perform pgq._fail_unknown_topic(_lock_partition.topic);
    end if;

    if state.segment <> state.topic_segment then
        state := pgq._enter_segment(_lock_partition.topic, state);
    end if;

    return state;
end
$$;

comment on function pgq._lock_partition(text, integer, text) is
'Locks the partition that a message goes to until the transaction ends, and says where it stands.
The named one, else the one of the key, else any that is free now. Raises MQ001, MQ007.';
