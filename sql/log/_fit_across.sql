create function pgq._fit_across(
    partition_id bigint, first_offset bigint, last_offset bigint, max_bytes bigint,
    least_messages integer default 1, exact boolean default false
)
returns pgq._fit
language plpgsql stable parallel safe
as $$
declare
    extent record;
    extents integer;
    fit pgq._fit;
    bytes_before bigint;
begin
    loop
        extents := 0;
        bytes_before := 0;
        for extent in select r.* from pgq._extents(partition_id, first_offset, last_offset) as r
        loop
            fit := pgq._fit(
                extent.segment, extent.stored_partition_id, extent.first_offset - extent.shift,
                extent.last_offset - extent.shift, max_bytes - bytes_before,
                case when extent.first_offset = _fit_across.first_offset then least_messages else 0
                end,
                exact
            );
            fit.last_offset := fit.last_offset + extent.shift;
            fit.bytes := fit.bytes + bytes_before;
            bytes_before := fit.bytes;
            extents := extents + 1;
            exit when fit.cut_short;
        end loop;

        -- A bound for the first extents may have left no room: then measure them.
        exit when (fit.cut_short and extents > 1 and not exact) is not true;
        exact := true;
    end loop;
    return fit;
end
$$;

comment on function pgq._fit_across(bigint, bigint, bigint, bigint, integer, boolean) is
'Like _fit, for a range of offsets of a partition, which may span several segments. Without any
result if the range was truncated.';
