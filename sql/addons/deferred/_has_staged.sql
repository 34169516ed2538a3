create function pgq._has_staged(partition_id bigint, segment integer, since pgq._staged_since)
returns boolean
language plpgsql stable parallel safe
as $$
declare
    lowest bigint := (since).lowest;
    above bigint := pgq._staged_id(partition_id + 1, 0);
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
                    = pgq._staged_id({_has_staged.partition_id}, x.xid::text::bigint)
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
