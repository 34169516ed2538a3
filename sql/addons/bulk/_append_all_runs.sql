create function pgq._append_all_runs(topic text, stored_ids bigint[], only_copy boolean)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    perform pgq._append_runs(topic, g.partition, g.runs, only_copy)
    from (
        select r.partition, array_agg(r order by u.number) as runs
        from unnest(stored_ids) with ordinality as u (stored_partition_id, number)
        inner join pgq.staged_run as r on r.stored_partition_id = u.stored_partition_id
        group by r.partition
        order by r.partition
    ) as g;
end
$$;

comment on function pgq._append_all_runs(text, bigint[], boolean) is
'Like _append_runs, for extents of several partitions.';
