create function pgq._has_staged(partition_id bigint, segment integer, since pgq._staged_since)
returns boolean
language plpgsql stable parallel safe
as $$
declare
    lowest bigint := (since).lowest;
    above bigint := (partition_id + 1) << 32;
    late_xids xid8[] := (since).late_xids;
    is_there boolean;
begin
    -- for the first 16 leaves: _has_staged.segment
    select
        exists (
            select
            from pgq.message_{leaf} as m
            where m.partition_id >= {lowest} and m.partition_id < {above}
        )
        or exists (
            select
            from unnest({late_xids}) as x (xid)
            cross join lateral (
                select
                from pgq.message_{leaf} as m
                where m.partition_id
                    = ({_has_staged.partition_id} << 32) + (x.xid::text::bigint & 4294967295)
                limit 1
            ) as f
            where pg_visible_in_snapshot(x.xid, (select pg_current_snapshot()))
        )
    into is_there;
    -- end of the leaf

    return is_there;
end
$$;

comment on function pgq._has_staged(bigint, integer, pgq._staged_since) is
'Returns whether a segment has committed staged messages of a partition that have no offsets yet.';
