create function pgq._begin_epoch(
    state pgq._partition_state, first_offset bigint, publish_time timestamptz
)
returns pgq._partition_state
language plpgsql volatile parallel unsafe
as $$
begin
    -- New epoch (stored_partition_id): a reader that still knows the old one sees only the messages
    -- before the extents, and nothing after a gap.
    state.stored_partition_id := -nextval('pgq.extent_id');
    state.segment_first_offset := first_offset;
    state.segment_entered_at := publish_time;

    insert into pgq.segment_range (partition_id, first_offset, segment, stored_partition_id)
    values (state.partition_id, first_offset, state.segment, state.stored_partition_id);

    update pgq.partition as p
    set
        stored_partition_id = state.stored_partition_id, segment_first_offset = first_offset,
        segment_entered_at = publish_time
    where p.partition_id = state.partition_id;

    return state;
end
$$;

comment on function pgq._begin_epoch(pgq._partition_state, bigint, timestamptz) is
'Lets a partition continue after attached extents, under a new epoch. The caller has locked its
row.';
