create function pgq._add_partitions(
    topic_id bigint,
    first_partition integer,
    last_partition integer
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    leaf integer;
begin
    -- The share lock keeps the segment open until this transaction ends.
    select t.segment
    into leaf
    from pgq.topic as t
    where t.topic_id = _add_partitions.topic_id
    for share;

    with added as (
        insert into pgq.partition (
            topic_id, partition, partition_id, segment, segment_first_offset, segment_entered_at
        )
        select
            _add_partitions.topic_id,
            n.number,
            nextval('pgq.partition_id'),
            leaf,
            1,
            '-infinity'
        from generate_series(
            _add_partitions.first_partition, _add_partitions.last_partition
        ) as n (number)
        returning partition_id
    )

    insert into pgq.segment_range (partition_id, first_offset, segment)
    select a.partition_id, 1, leaf
    from added as a;

    insert into pgq.group_partition (group_id, partition)
    select g.group_id, n.number
    from pgq.consumer_group as g
    cross join generate_series(
        _add_partitions.first_partition, _add_partitions.last_partition
    ) as n (number)
    where g.topic_id = _add_partitions.topic_id;

    insert into pgq.group_position (
        group_id, partition, seq, first_offset, next_offset, recorded_at
    )
    select g.group_id, n.number, 1, 1, 1, pgq._clock()
    from pgq.consumer_group as g
    cross join generate_series(
        _add_partitions.first_partition, _add_partitions.last_partition
    ) as n (number)
    where g.topic_id = _add_partitions.topic_id;
end
$$;

comment on function pgq._add_partitions(bigint, integer, integer) is
'Adds partitions to a topic; its groups read them from their first message.';
