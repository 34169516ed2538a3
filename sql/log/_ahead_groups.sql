create function pgq._ahead_groups(moment timestamptz)
returns table (
    topic text,
    consumer_group text,
    partition integer,
    seq bigint,
    leased_until timestamptz
)
language plpgsql stable parallel unsafe
as $$
begin
    return query
    select l.topic, l.consumer_group, l.partition, j.seq, j.leased_until - (j.recorded_at - moment)
    from pgq.group_partition as l
    cross join lateral (
        select k.seq, k.recorded_at, k.leased_until
        from pgq.group_position as k
        where k.group_id = l.group_id and k.partition = l.partition
        order by k.seq desc
        limit 1
    ) as j
    where j.recorded_at > moment + interval '5 seconds' and j.leased_until > j.recorded_at;
end
$$;

comment on function pgq._ahead_groups(timestamptz) is
'Lists partitions that a group leased while the clock was more than 5 seconds ahead, with the
corrected end of the lease.';
