create function pgq._ahead_groups(now_at timestamptz)
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
    select l.topic, l.consumer_group, l.partition, j.seq, j.leased_until - (j.recorded_at - now_at)
    from pgq.group_partition as l
    cross join lateral pgq._current_position(l.group_id, l.partition) as j
    where j.recorded_at > now_at + interval '5 seconds' and j.leased_until > j.recorded_at;
end
$$;

comment on function pgq._ahead_groups(timestamptz) is
'Lists partitions that a group leased while the clock was more than 5 seconds ahead, with the
corrected end of the lease.';
