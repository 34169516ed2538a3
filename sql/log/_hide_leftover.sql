create function pgq._hide_leftover(leftover pgq.leftover)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- So that whoever takes the note back by an older snapshot cannot.
    update pgq.leftover as o
    set remove_at = o.remove_at
    where o.partition_id = (_hide_leftover.leftover).partition_id
        and o.segment = (_hide_leftover.leftover).segment
        and o.first_offset = (_hide_leftover.leftover).first_offset;

    delete from pgq.segment_range as r
    using pgq.segment_range as s
    where s.stored_partition_id = (_hide_leftover.leftover).partition_id
        and s.segment = (_hide_leftover.leftover).segment
        and s.first_offset - s.shift
        between (_hide_leftover.leftover).first_offset and (_hide_leftover.leftover).last_offset
        and r.partition_id = s.partition_id
        and r.first_offset <= s.first_offset
        and exists (
            select
            from pgq.segment_range as n
            where n.partition_id = s.partition_id
                and n.first_offset > s.first_offset
        );
end
$$;

comment on function pgq._hide_leftover(pgq.leftover) is
'Takes what is about to be removed, and what is older, out of sight of the readers of a partition.';
