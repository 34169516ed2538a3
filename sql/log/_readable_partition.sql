create function pgq._readable_partition(
    topic text, partition integer, first_offset bigint, last_offset bigint
)
returns pgq.partition
language plpgsql stable parallel unsafe
as $$
declare
    found_row pgq.partition;
begin
    if first_offset is null or last_offset is null then
        raise exception 'argument "%" must not be null',
            case when first_offset is null then 'first_offset' else 'last_offset' end
            using errcode = '22004';
    end if;

    select p.*
    into found_row
    from pgq.partition as p
    where p.topic = _readable_partition.topic
        and p.partition = _readable_partition.partition
        and (p.consumers is null or pgq._may(p.consumers));

    if found_row.partition_id is null then
        perform pgq._check_access(topic, null, 'consume');
        perform pgq._fail_unknown_partition(t.topic, partition, t.partitions)
        from pgq.topic as t
        where t.topic = _readable_partition.topic;

        perform pgq._fail_unknown_topic(topic);
    end if;
    return found_row;
end
$$;

comment on function pgq._readable_partition(text, integer, bigint, bigint) is
'The row of a partition that the caller may read. Raises 22004 for an offset that is null, MQ001,
MQ007.';
