create function pgq._fail_unknown_partition(topic text, partition integer, partitions integer)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if partition is null then
        raise exception 'argument "partition" must not be null' using errcode = '22004';
    end if;
    raise exception 'unknown partition % of topic "%"',
        partition, topic
        using errcode = 'MQ007',
            detail = format('The topic has %s partitions, numbered from 0.', partitions);
end
$$;

comment on function pgq._fail_unknown_partition(text, integer, integer) is
'Raises MQ007, or 22004 when the partition is null.';
