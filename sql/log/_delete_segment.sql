create function pgq._delete_segment(segment integer)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- Older ranges, kept longer under a former retention, are removed together with this segment.
    -- Those in a class without retention (stored before the topic had max_bytes) are never
    -- truncated: record them in dropped_range, so that cleanup deletes their rows.
    with emptied as (
        select s.partition_id, max(s.first_offset) as first_offset
        from pgq.segment_range as s
        where s.segment = _delete_segment.segment
        group by s.partition_id
    ),

    gone as (
        delete from pgq.segment_range as r
        using emptied as e
        where r.partition_id = e.partition_id and r.first_offset <= e.first_offset
        returning r.*
    )

    insert into pgq.dropped_range (partition_id, segment, first_offset, last_offset)
    select
        o.stored_partition_id, o.segment, o.first_offset - o.shift,
        (
            select min(n.first_offset)
            from pgq.segment_range as n
            where n.partition_id = o.partition_id and n.first_offset > o.first_offset
        ) - 1 - o.shift
    from gone as o
    inner join pgq.segment as g on g.segment = o.segment
    inner join pgq.storage_class as c on c.storage_class_id = g.storage_class_id
    where c.retention is null and o.segment <> _delete_segment.segment
    on conflict do nothing;
end
$$;

comment on function pgq._delete_segment(integer) is
'Removes the ranges of a segment that is being truncated, so that the logs stored in it begin after
it.';
