create function pgq._offset_at(
    partition_id bigint,
    published_at timestamptz,
    first_available bigint,
    tip bigint
)
returns bigint
language plpgsql
stable
parallel safe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    low bigint := _offset_at.first_available;
    high bigint := _offset_at.tip + 1;
    middle bigint;
    middle_at timestamptz;
begin
    -- published_at rises with the offset, so halving finds the place without an index on the time.
    while low < high loop
        middle := low + (high - low) / 2;
        select m.published_at
        into middle_at
        from pgq.message as m
        where m.segment = (
                select r.segment
                from pgq.segment_range as r
                where r.partition_id = _offset_at.partition_id
                    and r.first_offset <= middle
                order by r.first_offset desc
                limit 1
            )
            and m.partition_id = _offset_at.partition_id
            and m.log_offset = middle;

        if middle_at < _offset_at.published_at then
            low := middle + 1;
        else
            high := middle;
        end if;
    end loop;
    return low;
end
$$;

comment on function pgq._offset_at(bigint, timestamptz, bigint, bigint) is
'The first offset of a partition that was published at a time or later; the tip + 1 when there is
none. The view topic_stats calls it with the rights of its reader, so it is open to all.';
