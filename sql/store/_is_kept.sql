create function pgq._is_kept(segment integer)
returns boolean
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    kept boolean;
begin
    -- for the leaf: _is_kept.segment
    select true
    from pgq.message_{leaf} as m
    where m.partition_id = 0
    limit 1
    into kept;
    -- end of the leaf

    return kept is not null;
end
$$;

comment on function pgq._is_kept(integer) is
'Whether a segment that the snapshot shows has not been emptied since. TRUNCATE is seen by snapshots
that are older, too; what they still see of a segment is its first row, or it was emptied.';
