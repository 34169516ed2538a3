create function pgq._is_kept(segment integer)
returns boolean
language plpgsql stable parallel safe
as $$
begin
    return (pgq._newest(0, segment, -9223372036854775808)).log_offset is not null;
end
$$;

comment on function pgq._is_kept(integer) is
'Whether a segment that the snapshot shows has not been emptied since. TRUNCATE is seen by snapshots
that are older, too; what they still see of a segment is its first row, or it was emptied.';
