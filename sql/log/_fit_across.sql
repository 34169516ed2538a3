create function pgq._fit_across(
    partition_id bigint, first_offset bigint, last_offset bigint, max_bytes bigint,
    least_messages integer default 1
)
returns pgq._fit
language plpgsql stable parallel safe
as $$
declare
    extent record;
    fit pgq._fit;
    bytes_before bigint := 0;
begin
    for extent in select r.* from pgq._extents(partition_id, first_offset, last_offset) as r loop
        fit := pgq._fit(
            extent.segment, extent.stored_partition_id, extent.first_offset - extent.shift,
            extent.last_offset - extent.shift, max_bytes - bytes_before,
            case when extent.first_offset = _fit_across.first_offset then least_messages else 0 end
        );
        fit.last_offset := fit.last_offset + extent.shift;
        fit.bytes := fit.bytes + bytes_before;
        bytes_before := fit.bytes;
        exit when fit.cut_short;
    end loop;
    return fit;
end
$$;

comment on function pgq._fit_across(bigint, bigint, bigint, bigint, integer) is
'Like _fit, for a range of offsets of a partition, which may span several segments.';
