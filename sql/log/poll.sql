create function pgq.poll(
    topic text,
    consumer_group text,
    max_messages integer default 100,
    partition integer default null,
    lease interval default '30 seconds',
    max_bytes bigint default 67108864
)
returns setof pgq.leased_message
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    lease_length interval := coalesce(lease, '30 seconds');
    claimed pgq._claim_state;
    read_rows bigint;
begin
    perform pgq._check_interval('lease', lease_length, false);

    claimed := pgq._claim(
        topic collate "C", consumer_group, max_messages, partition, lease_length,
        coalesce(max_bytes, 67108864)
    );
    if claimed.partition is null then
        return;
    end if;

    if claimed.segment is not null then
        -- for the first 48 leaves: claimed.segment
        return query
        select
            {claimed.lease_token}, {claimed.leased_until}, {claimed.partition}, m.log_offset,
            m.published_at, m.key, m.headers, m.payload, m.body, {claimed.attempt},
            {claimed.cut_short}
        from pgq.message_{leaf} as m
        where m.partition_id = {claimed.stored_partition_id}
            and m.log_offset between {claimed.first_offset} and {claimed.last_offset}
        order by m.log_offset;
        -- end of the leaf
    else
        return query
        select
            claimed.lease_token, claimed.leased_until, m.partition, m.log_offset, m.published_at,
            m.key, m.headers, m.payload, m.body, claimed.attempt, claimed.cut_short
        from pgq._messages_across(
            claimed.partition_id, claimed.partition, claimed.first_offset, claimed.last_offset
        ) as m;
    end if;

    -- Cleanup may have truncated a segment since the claim.
    get diagnostics read_rows = row_count;
    if read_rows <> claimed.last_offset - claimed.first_offset + 1 then
        perform pgq._fail_truncated(topic collate "C");
    end if;
end
$$;

comment on function pgq.poll(text, text, integer, integer, interval, bigint) is
'Leases a partition to the caller and returns its next messages.
The position does not move yet. Until the lease ends, the other members of the group get other
partitions. commit_offset with the lease token moves the position; when the last message is
committed, the partition is free again. extend_poll extends the lease, release_poll gives the
partition back, and when the lease expires another member gets the same messages. All rows are of
one partition, in order, with one token. No row: nothing to read for this member now. The lease
starts at the time of the call, not at the start of the transaction; commit before working, or other
sessions do not see the lease. max_messages: 1 to 1000000, by default 100; lease: more than 0, by
default 30 seconds. max_bytes: as in consume.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 retention has removed the next message,
MQ007 unknown partition, 22004 a required argument is null, 22023 bad max_messages, lease or
max_bytes, 40001 above READ COMMITTED when another transaction was first, or at any level when
retention removes what is being read (try again).';
