create function pgq._partition_figures(
    key uuid, partition_id bigint, stored_partition_id bigint, segment integer,
    segment_first_offset bigint, next_offset bigint, since timestamptz
)
returns table (
    first_offset bigint,
    last_offset bigint,
    published_at timestamptz,
    since_offset bigint
)
language plpgsql stable parallel safe rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    newest pgq._newest_message;
begin
    if not exists (select from pgq.view_key as k where k.key = _partition_figures.key) then
        raise exception 'permission denied for the figures of a partition'
            using errcode = '42501',
                hint = 'The views of pgq show them to those who may read these.';
    end if;

    newest := pgq._newest(stored_partition_id, segment, segment_first_offset);
    last_offset := coalesce(newest.log_offset, segment_first_offset - 1);

    if next_offset > last_offset then
        return next;
        return;
    end if;

    if next_offset >= segment_first_offset then
        newest := pgq._newest(stored_partition_id, segment, next_offset, next_offset);
        published_at := newest.published_at;
        return next;
        return;
    end if;

    first_offset := pgq._first_available(partition_id);
    if next_offset is not null then
        published_at := pgq._published_at(partition_id, greatest(next_offset, first_offset));
    end if;
    if since is not null then
        since_offset := pgq._offset_at(partition_id, since, first_offset, last_offset);
    end if;
    return next;
end
$$;

comment on function pgq._partition_figures(
    uuid, bigint, bigint, integer, bigint, bigint, timestamptz
) is
'Returns the figures of a partition that the views show: its first and newest offset, when the
message that a group reads next was published, and the first offset published since a time.
Executable by all, as readers of the views need it; it requires the key of the views.';
