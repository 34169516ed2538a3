create function pgq._append_all_extents(topic text, stored_ids bigint[], only_copy boolean)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    perform pgq._append_extents(topic, g.partition, g.extents, only_copy)
    from (
        select r.partition, array_agg(r order by u.ordinal) as extents
        from unnest(stored_ids) with ordinality as u (stored_partition_id, ordinal)
        inner join pgq.staged_extent as r on r.stored_partition_id = u.stored_partition_id
        group by r.partition
        order by r.partition
    ) as g;
end
$$;

comment on function pgq._append_all_extents(text, bigint[], boolean) is
'Like _append_extents, for extents of several partitions.';
