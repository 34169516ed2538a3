create function pgq._give_up(
    topic text, consumer_group text, state pgq._group_state, held_until timestamptz
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    current pgq._group_state := state;
    poison pgq.message_record;
    dead_letter_topic text;
begin
    -- A batch failed: the failing message is not known yet, so deliver them one by one from now on.
    if current.tried_offset > current.next_offset
        and (current.single_offset >= current.next_offset) is not true
    then
        current.attempt := 0;
        current.single_offset := current.tried_offset;
        perform pgq._append_position(current, current.next_offset, held_until, null);
        return;
    end if;

    select m.*
    into poison
    from pgq._messages_across(
        current.partition_id, current.partition, current.next_offset, current.next_offset
    ) as m;
    if poison.log_offset is null then
        perform pgq._fail_truncated(topic);
    end if;

    select t.topic
    into dead_letter_topic
    from pgq.consumer_group as g
    inner join pgq.topic as t on t.topic_id = g.dead_letter_topic_id
    where g.group_id = current.group_id;

    -- Publish only if this call moved the position, so that a message is dead-lettered once.
    if pgq._append_position(current, current.next_offset + 1, null, null) then
        perform pgq._act_for(true);
        perform
        from pgq.publish(
            topic => dead_letter_topic, payload => poison.payload, key => poison.key,
            headers => coalesce(poison.headers, '{}') || jsonb_build_object(
                'pgq_topic', topic, 'pgq_partition', poison.partition,
                'pgq_offset', poison.log_offset, 'pgq_group', consumer_group,
                'pgq_attempts', current.attempt,
                -- Cut to fit in beside the headers, which may be as large as 256 KiB.
                'pgq_error', left(
                    current.last_error,
                    greatest(1000, least(8000, 65000 - pg_column_size(poison.headers) / 4))
                ),
                'pgq_published_at', poison.published_at
            ),
            body => poison.body
        );
        perform pgq._act_for(false);
    end if;
end
$$;

comment on function pgq._give_up(text, text, pgq._group_state, timestamptz) is
'Handles messages that have used all attempts, in a partition whose row the caller has locked. The
messages of a batch are given out one by one from now on, and not before held_until; a single
message is published to the group''s dead-letter topic, and the position moves past it.';
