create function pgq.next_poll(topic text, consumer_group text)
returns timestamptz
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    perform pgq._check_group(topic collate "C", consumer_group collate "C", null);

    -- Without a lease: a poll that has not committed yet may have it, and may never commit.
    return (
        select min(coalesce(c.leased_until, pgq._clock()))
        from pgq.group_partition as l
        inner join pgq.partition as p on p.partition_id = l.partition_id
        cross join lateral pgq._current_position(l.group_id, l.partition) as c
        where l.topic = next_poll.topic collate "C"
            and l.consumer_group = next_poll.consumer_group collate "C"
            and (
                c.next_offset < p.segment_first_offset
                or (pgq._newest(p.stored_partition_id, p.segment, c.next_offset)).log_offset
                is not null
                -- Messages that a poll would give offsets.
                or p.deferred
                and exists (
                    select
                    from unnest(p.left_segments || p.segment) as f (segment)
                    cross join lateral pgq._staged_since(p.partition_id) as s
                    where pgq._has_staged(p.partition_id, f.segment, s)
                )
            )
    );
end
$$;

comment on function pgq.next_poll(text, text) is
'Returns when a poll of the group may next find messages, if nothing is published until then.
For a member whose poll found nothing: the time at which the lease of another member ends, or the
delay of nack_offsets. A time in the past: messages are available, but an open transaction holds
their partition; ask again after a while. Null: the group has read everything. A topic with notify
notifies the channel pgq_topic when messages are published, and when release_poll, nack_offsets or
seek makes them available earlier than they were.
Errors: MQ001 unknown topic, MQ003 unknown group, 22004 a required argument is null.';
