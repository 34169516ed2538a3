create function pgq._offset_at(
    partition_id bigint, published_at timestamptz, first_available bigint, last_offset bigint
)
returns bigint
language plpgsql stable parallel safe
as $$
declare
    low bigint := first_available;
    high bigint := last_offset + 1;
    middle bigint;
    middle_at timestamptz;
begin
    -- Fast path: the requested time is usually later than the last message.
    if low < high and pgq._published_at(partition_id, last_offset) < published_at then
        return high;
    end if;

    -- Binary search: published_at rises with the offset, so no index on the time is needed.
    -- Messages that retention has removed, perhaps since the caller's look-up, are older than all
    -- others.
    while low < high loop
        middle := low + (high - low) / 2;
        middle_at := pgq._published_at(partition_id, middle);

        if (middle_at >= published_at) is not true then
            low := middle + 1;
        else
            high := middle;
        end if;
    end loop;
    return low;
end
$$;

comment on function pgq._offset_at(bigint, timestamptz, bigint, bigint) is
'Returns the first offset of a partition that was published at a time or later; last_offset + 1 if
there is none.';
