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
'Gives a segment its first row, by which a reader knows that it has not been emptied (_is_kept). It
has the id 0, which no partition and no queue has.';
