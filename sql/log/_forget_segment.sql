create function pgq._forget_segment(segment integer)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    -- Older messages that were to be kept longer, before the retention became shorter, go from
    -- sight with it.
    delete from pgq.segment_range as r
    using pgq.segment_range as s
    where s.segment = _forget_segment.segment
        and r.partition_id = s.partition_id
        and r.first_offset <= s.first_offset;
end
$$;

comment on function pgq._forget_segment(integer) is
'Lets the logs that reach into a segment that is emptied begin behind it.';
