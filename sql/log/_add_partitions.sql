create function pgq._add_partitions(
    topic pgq.topic, class pgq.storage_class, first_partition integer, last_partition integer
)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    if (topic).deferred and (select s.last_value from pgq.partition_id as s) > 68719000000 then
        raise exception 'there have been too many partitions and queues for deferred topics'
            using errcode = '54000',
                detail = 'Up to 68719000000 of their ids leave room for the ids of transactions.';
    end if;

    with added as (
        insert into pgq.partition (
            topic_id,
            partition,
            partition_id,
            topic,
            partitions,
            hash_position,
            has_delivery,
            segment,
            segment_first_offset,
            segment_entered_at,
            segment_until,
            deferred,
            publishers,
            consumers,
            stored_partition_id
        )
        select
            (_add_partitions.topic).topic_id,
            n.new_partition,
            n.partition_id,
            (_add_partitions.topic).topic,
            last_partition + 1,
            pgq._free_position((_add_partitions.topic).topic, n.new_partition, last_partition + 1),
            pgq._has_delivery(_add_partitions.topic),
            (class).segment,
            1,
            '-infinity',
            pgq._segment_until(class),
            (_add_partitions.topic).deferred,
            q.publishers,
            q.consumers,
            n.partition_id
        from (
            select g.new_partition, nextval('pgq.partition_id') as partition_id
            from generate_series(first_partition, last_partition) as g (new_partition)
        ) as n
        left join pgq.partition as q
            on q.topic_id = (_add_partitions.topic).topic_id
            and q.partition = 0
        returning partition_id, segment, partition
    ),

    placed as (
        insert into pgq.segment_range (partition_id, first_offset, segment, stored_partition_id)
        select a.partition_id, 1, a.segment, a.partition_id
        from added as a
    ),

    grouped as (
        insert into pgq.group_partition (
            group_id, partition, topic, consumer_group, partition_id, out_of_range, max_attempts
        )
        select
            g.group_id,
            a.partition,
            (topic).topic,
            g.consumer_group,
            a.partition_id,
            g.out_of_range,
            g.max_attempts
        from pgq.consumer_group as g
        cross join added as a
        where g.topic_id = (topic).topic_id
        returning group_id, partition
    )

    insert into pgq.group_position (
        group_id, partition, seq, first_offset, next_offset, recorded_at
    )
    select g.group_id, g.partition, 1, 1, 1, pgq._clock()
    from grouped as g;
end
$$;

comment on function pgq._add_partitions(pgq.topic, pgq.storage_class, integer, integer) is
'Adds partitions to a topic whose storage class the caller has locked; its consumer groups read them
from the first message.';
