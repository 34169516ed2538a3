create function pgq.watermark(topic text)
returns timestamptz
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    now_at timestamptz;
    -- Partitions that no open transaction is publishing to.
    free_ids bigint[] := '{}';
begin
    perform pgq._check_access(topic collate "C", null, 'monitor');
    perform pgq._check_topic(topic collate "C");

    if current_setting('transaction_read_only') = 'off' then
        -- Read the clock before testing the locks: a later publisher reads it after it gets its
        -- lock.
        now_at := pgq._clock();
        free_ids := pgq._unlocked_partitions(topic collate "C");
    end if;

    -- In a locked partition no new message can be older than its newest visible message.
    return (
        select
            min(
                greatest(
                    case when p.partition_id = any(free_ids) then now_at end,
                    (pgq._newest(p.stored_partition_id, p.segment, p.segment_first_offset))
                    .published_at, p.segment_entered_at, t.created_at
                )
            )
        from pgq.topic as t
        inner join pgq.partition as p on p.topic_id = t.topic_id
        where t.topic = watermark.topic collate "C"
    );
end
$$;

comment on function pgq.watermark(text) is
'Returns a time before which no more messages will be published to a topic.
Use it as the end of a window by published_at, so that no message is lost: published_at is the time
of the publish, but other sessions see the message only after the commit, so a window up to now()
misses messages of open transactions. Without open publishers the watermark is the present;
otherwise it is the time of the newest visible message in a partition with an open publisher. Call
it first, and read messages with published_at < watermark in a later statement. On a standby, and in
a read-only transaction, it takes the time of the newest message of each partition, and returns the
earliest. It does not wait for other transactions. If the server''s clock is set back, the watermark
does not hold, except for partitions that have newer messages.
Errors: MQ001 unknown topic, 22004 a required argument is null, 40001 above READ COMMITTED when
another transaction was first (try again).';
