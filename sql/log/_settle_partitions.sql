create function pgq._settle_partitions(
    topic_id bigint, objects int8multirange, max_partitions integer
)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    updated integer := 0;
begin
    for target in
        select p.partition_id, t.topic, pgq._state_of(p) as state
        from pgq.partition as p
        inner join pgq.topic as t on t.topic_id = p.topic_id
        inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
        where t.topic_id = coalesce(_settle_partitions.topic_id, t.topic_id)
            and p.segment::bigint <@ objects
            and (
                p.segment <> c.segment
                or p.partitions <> t.partitions
                -- Race: two partitions updated concurrently may have taken the same hash position.
                or exists (
                    select
                    from pgq.partition as o
                    where o.topic = p.topic and o.hash_position = p.hash_position
                        and o.partition < p.partition
                )
                or p.has_delivery <> pgq._has_delivery(t)
            )
        limit max_partitions
        for no key update of p skip locked
    loop
        -- Keys are mapped by the row of partition 0, so they all move at once. New statement: the
        -- topic may have been altered since the snapshot of the loop.
        update pgq.partition as p
        set
            partitions = t.partitions,
            hash_position = pgq._free_position(p.topic, p.partition, t.partitions),
            has_delivery = pgq._has_delivery(t)
        from pgq.topic as t
        where p.partition_id = target.partition_id and t.topic_id = p.topic_id;

        perform pgq._enter_segment(target.topic, target.state);
        updated := updated + 1;
    end loop;

    return updated;
end
$$;

comment on function pgq._settle_partitions(bigint, int8multirange, integer) is
'Updates partitions of one topic, or of all, to the settings of their topic and the segment that its
storage class writes to now, if they write to one of these segments; returns the number updated.
Locked partitions are left for the next call.';
