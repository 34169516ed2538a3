create function pgq._enter_segment(topic text, state pgq._partition_state)
returns pgq._partition_state
language plpgsql volatile parallel unsafe
as $$
declare
    entered pgq._partition_state := state;
    class pgq.storage_class;
    until timestamptz;
    newest pgq._newest_message;
begin
    -- Race: the topic may get another class between two statements, and its old class go out of
    -- use. Then retry.
    while class.segment is null loop
        select c.*
        into class
        from pgq.topic as t
        inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
        where t.topic = _enter_segment.topic;

        if class.segment = entered.segment then
            -- An empty segment is kept open for longer. No lock needed: the class does not move on
            -- before this time, so if it moves on concurrently, the time stored here has already
            -- passed.
            until := pgq._segment_until(class);
            if until > entered.segment_until then
                update pgq.partition as p
                set segment_until = until
                where p.partition_id = entered.partition_id;
                entered.segment_until := until;
            end if;

            return entered;
        end if;

        -- FOR SHARE keeps the segment open until this transaction ends. Under REPEATABLE READ, a
        -- class that moved on since the snapshot raises 40001.
        select c.*
        into class
        from pgq.storage_class as c
        where c.storage_class_id = class.storage_class_id
        for share;
    end loop;

    entered.segment := class.segment;
    entered.segment_until := pgq._segment_until(class);

    newest := pgq._newest(
        (state).stored_partition_id, (state).segment, entered.segment_first_offset
    );

    if pgq._keeps_snapshot() then
        -- An old snapshot may not show the newest message, and no unique index spans two segments.
        -- Probe the next offset in the old segment: a row that this snapshot does not show raises
        -- 40001.
        perform pgq._try_offset(
            (state).stored_partition_id, (state).segment,
            coalesce(newest.log_offset + 1, entered.segment_first_offset)
        );
    end if;

    entered.segment_first_offset := coalesce(newest.log_offset + 1, entered.segment_first_offset);
    entered.segment_entered_at := greatest(newest.published_at, entered.segment_entered_at);
    entered.stored_partition_id := entered.partition_id;

    update pgq.partition as p
    set
        segment = entered.segment, segment_first_offset = entered.segment_first_offset,
        segment_entered_at = entered.segment_entered_at, segment_until = entered.segment_until,
        stored_partition_id = entered.stored_partition_id,
        left_segments = case
            when p.deferred then array_append(
                array_remove(p.left_segments, (state).segment), (state).segment
            )
            else '{}'
        end
    where p.partition_id = entered.partition_id;

    -- Race: a publisher that stages messages takes no lock and may have read the old segment before
    -- this update. Restart the wait before that segment is closed, as if this transaction had
    -- sealed it; set this even if it is not sealed yet, since another transaction may be sealing
    -- it.
    update pgq.segment as g
    set sealed_xid = pg_current_xact_id(), horizon = null
    from pgq.partition as p
    where g.segment = (_enter_segment.state).segment
        and p.partition_id = entered.partition_id and p.deferred;

    -- If this partition wrote no message to the old segment, its range row is reused.
    insert into pgq.segment_range (partition_id, first_offset, segment, stored_partition_id)
    values (
        entered.partition_id, entered.segment_first_offset, entered.segment, entered.partition_id
    )
    on conflict (partition_id, first_offset) do update
    set segment = excluded.segment, stored_partition_id = excluded.stored_partition_id;

    return entered;
end
$$;

comment on function pgq._enter_segment(text, pgq._partition_state) is
'Moves a partition, whose row the caller has locked, to the segment that its storage class writes to
now, and records until when it stays there. In the same segment, only that time is extended.';
