create function pgq._lock_staged(target pgq.bulk_write)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    perform
    from pgq.partition as p
    where p.topic_id = target.topic_id
        and (
            p.partition in (
                select coalesce(
                    c.partition,
                    c.task % (
                        select t.partitions from pgq.topic as t where t.topic_id = target.topic_id
                    )
                )
                from pgq.staged_chunk as c
                where c.write_id = target.write_id and c.digest is null
                union all
                select r.partition from pgq.staged_extent as r where r.write_id = target.write_id
            )
            or exists (
                select
                from pgq.staged_chunk as c
                where c.write_id = target.write_id and c.partition is null and c.keys is not null
            )
            or exists (
                select
                from pgq.staged_extent as r
                where r.write_id = target.write_id and r.partitions is not null
            )
        )
    order by p.partition
    for no key update;
end
$$;

comment on function pgq._lock_staged(pgq.bulk_write) is
'Locks all partitions that an atomic write needs, in ascending order.';
