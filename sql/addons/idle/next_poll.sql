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

    return (
        select min(c.leased_until)
        from pgq.group_partition as p
        cross join lateral pgq._current_position(p.group_id, p.partition) as c
        where p.topic = next_poll.topic collate "C"
            and p.consumer_group = next_poll.consumer_group collate "C"
    );
end
$$;

comment on function pgq.next_poll(text, text) is
'Returns when a poll of the group may next find messages, if nothing is published until then.
For a member whose poll found nothing: the time at which the lease of another member ends, or the
delay of nack_offsets. Null: nobody has a lease. The channel pgq_topic tells what is published, see
create_topic.
Errors: MQ001 unknown topic, MQ003 unknown group, 22004 a required argument is null.';
