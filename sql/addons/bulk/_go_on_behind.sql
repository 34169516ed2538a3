create function pgq._go_on_behind(
    state pgq._partition_state, first_offset bigint, stamp timestamptz
)
returns pgq._partition_state
language plpgsql volatile parallel unsafe
as $$
declare
    moved pgq._partition_state := state;
begin
    -- New epoch (stored_partition_id): a reader that still knows the old one sees only the messages
    -- before the extents, and nothing after a gap.
    moved.stored_partition_id := -nextval('pgq.run_id');
    moved.segment_first_offset := first_offset;
    moved.segment_entered_at := stamp;

    insert into pgq.segment_range (partition_id, first_offset, segment, stored_partition_id)
    values (
        moved.partition_id, moved.segment_first_offset, moved.segment, moved.stored_partition_id
    );

    update pgq.partition as p
    set
        stored_partition_id = moved.stored_partition_id,
        segment_first_offset = moved.segment_first_offset,
        segment_entered_at = moved.segment_entered_at
    where p.partition_id = moved.partition_id;
    return moved;
end
$$;

comment on function pgq._go_on_behind(pgq._partition_state, bigint, timestamptz) is
'Lets a partition continue after attached extents, under a new epoch. The caller has locked its
row.';
