create function pgq._enter_partitions(created pgq.consumer_group, at_the_end boolean)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    insert into pgq.group_partition (
        group_id, partition, topic, consumer_group, partition_id, out_of_range, max_attempts
    )
    select
        (created).group_id,
        p.partition,
        p.topic,
        (created).consumer_group,
        p.partition_id,
        (created).out_of_range,
        (created).max_attempts
    from pgq.partition as p
    where p.topic_id = (created).topic_id;

    insert into pgq.group_position (
        group_id, partition, seq, first_offset, next_offset, recorded_at
    )
    select (created).group_id, s.partition, 1, s.next_offset, s.next_offset, pgq._clock()
    from (
        select
            p.partition,
            case
                when not at_the_end then pgq._first_available(p.partition_id)
                else pgq._last_offset(p.stored_partition_id, p.segment, p.segment_first_offset) + 1
            end as next_offset
        from pgq.partition as p
        where p.topic_id = (created).topic_id
    ) as s;
end
$$;

comment on function pgq._enter_partitions(pgq.consumer_group, boolean) is
'Gives a new group its position in each partition of its topic: after the last message, or at the
oldest one that is kept.';
