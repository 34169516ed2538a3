create function pgq._is_kept(segment integer)
returns boolean
language plpgsql stable parallel safe
as $$
begin
    return (pgq._newest(0, segment, -9223372036854775808)).log_offset is not null;
end
$$;

comment on function pgq._is_kept(integer) is
'Whether a segment that the snapshot shows has not been truncated since. TRUNCATE empties a leaf for
older snapshots too: if the first row of the segment (see _mark_segment) is missing, it was
truncated.';
