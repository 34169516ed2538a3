create function pgq._mark_segment(segment integer)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    execute format(
        'insert into pgq.message_%1$s (partition_id, log_offset, published_at, segment)
        values (0, 0, ''infinity'', %1$s)
        on conflict do nothing',
        segment
    );
end
$$;

comment on function pgq._mark_segment(integer) is
'Inserts the first row of a segment, by which readers see that it has not been truncated (_is_kept).
It has the partition_id 0, which no partition and no queue has.';
