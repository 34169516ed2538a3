create function pgq._append_extents(
    topic text, partition integer, extents pgq.staged_extent[], only_copy boolean
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    least_messages constant integer := 500;
    state pgq._partition_state;
    newest pgq._newest_message;
    extent pgq.staged_extent;
    size bigint;
    publish_time timestamptz;
    next_offset bigint;
    attached boolean := false;
begin
    state := pgq._lock_partition(topic, partition, null);

    -- Read after the lock: only a new statement's snapshot is sure to show the newest offset.
    newest := pgq._newest(state.stored_partition_id, state.segment, state.segment_first_offset);
    next_offset := coalesce(newest.log_offset + 1, state.segment_first_offset);
    publish_time := greatest(pgq._clock(), newest.published_at, state.segment_entered_at);

    foreach extent in array extents loop
        size := coalesce(
            (pgq._newest(extent.stored_partition_id, extent.segment, 1)).log_offset, 0
        );

        -- Smaller extents are copied: each range is one more row that readers pass.
        if extent.segment = state.segment and size >= least_messages and not only_copy then
            -- Replace a range that starts at this offset: it has no messages yet.
            insert into pgq.segment_range (
                partition_id, first_offset, segment, stored_partition_id, shift, published_at
            )
            values (
                state.partition_id,
                next_offset,
                extent.segment,
                extent.stored_partition_id,
                next_offset - 1,
                publish_time
            )
            on conflict (partition_id, first_offset) do update
            set
                segment = excluded.segment,
                stored_partition_id = excluded.stored_partition_id,
                shift = excluded.shift,
                published_at = excluded.published_at;

            delete from pgq.staged_extent as r
            where r.stored_partition_id = extent.stored_partition_id;
            attached := true;
        else
            if attached then
                state := pgq._begin_epoch(state, next_offset, publish_time);
                attached := false;
            end if;
            perform pgq._copy_size(
                extent.segment, extent.stored_partition_id, state.segment, state.stored_partition_id
            );
            execute format(
                'insert into pgq.message_%1$s (
                    partition_id, log_offset, published_at, segment, key, headers, payload, body
                )
                select $1, $2 + m.log_offset, $3, %1$s, m.key, m.headers, m.payload, m.body
                from pgq.message_%2$s as m
                where m.partition_id = $4
                order by m.log_offset',
                state.segment,
                extent.segment
            )
            using state.stored_partition_id, next_offset - 1, publish_time,
            extent.stored_partition_id;
        end if;

        if state.has_delivery and size > 0 then
            perform pgq._deliver(
                state.partition_id,
                state.stored_partition_id,
                state.segment,
                next_offset,
                next_offset + size - 1
            );
        end if;
        next_offset := next_offset + size;
    end loop;

    if attached then
        perform pgq._begin_epoch(state, next_offset, publish_time);
    end if;
end
$$;

comment on function pgq._append_extents(text, integer, pgq.staged_extent[], boolean) is
'Appends extents (staged_extent) to a partition, in this order: a long one in the partition''s
current segment is attached by a range that refers to it, others are copied. only_copy: copy all,
since jobs will point at the messages.';
