create function pgq._published_at(partition_id bigint, log_offset bigint)
returns timestamptz
language plpgsql stable parallel safe
as $$
declare
    extent record;
    newest pgq._newest_message;
begin
    select r.segment, r.stored_partition_id, r.shift, r.published_at
    into extent
    from pgq.segment_range as r
    where r.partition_id = _published_at.partition_id and r.first_offset <= log_offset
    order by r.first_offset desc
    limit 1;

    if extent.segment is null then
        return null;
    end if;

    newest := pgq._newest(
        extent.stored_partition_id, extent.segment, log_offset - extent.shift,
        log_offset - extent.shift
    );
    return case
        when newest.log_offset is not null then coalesce(extent.published_at, newest.published_at)
    end;
end
$$;

comment on function pgq._published_at(bigint, bigint) is
'Returns when the message at an offset was published; null if retention has removed it, perhaps
since the snapshot was taken.';
