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
    -- Again when the topic gets another class between two statements, and the one that it had goes
    -- out of use.
    while class.segment is null loop
        select c.*
        into class
        from pgq.topic as t
        inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
        where t.topic = _enter_segment.topic;

        if class.segment = entered.segment then
            -- Kept open for longer, since it was empty. Without a lock: the class goes on no
            -- earlier than this says, so if it does beside this call, the time is over by then.
            until := pgq._segment_until(class);
            if until > entered.segment_until then
                update pgq.partition as p
                set segment_until = until
                where p.partition_id = entered.partition_id;
                entered.segment_until := until;
            end if;

            return entered;
        end if;

        -- The share lock keeps the segment open until this transaction ends. Under REPEATABLE READ
        -- a class that went on since the snapshot raises 40001.
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
        -- The snapshot may be older than the newest message, and no index reaches over two
        -- segments. So the next offset is tried out where that message would stand: a row that
        -- this snapshot does not see raises 40001.
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
                array_remove(p.left_segments, (_enter_segment.state).segment),
                (_enter_segment.state).segment
            )
            else '{}'
        end
    where p.partition_id = entered.partition_id;

    -- Who stages a message locks nothing, and may have read where it goes to before this change. So
    -- this segment is closed no earlier than if it had been sealed by this transaction. Whether it
    -- is sealed already does not matter: somebody may be about to do it.
    update pgq.segment as g
    set sealed_xid = pg_current_xact_id(), horizon = null
    from pgq.partition as p
    where g.segment = (_enter_segment.state).segment
        and p.partition_id = entered.partition_id and p.deferred;

    -- A segment that got no message of this partition leaves no range behind.
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
now, if that is another one, and notes until when it stays there.';
