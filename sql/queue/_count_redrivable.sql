create function pgq._count_redrivable(dead_ids bigint[])
returns bigint
language sql stable parallel safe
as $$
-- Of letters with one unique key, only one is redriven.
select
    count(*) filter (where d.unique_key is null)
    + count(distinct d.unique_key) filter (
        where not exists (
            select
            from pgq.unique_job as u
            where u.queue_id = d.queue_id and u.unique_key = d.unique_key and u.job_id <> d.job_id
                -- An expired holder does not count, see _take_key.
                and (
                    select
                        j.expires_at <= pgq._clock()
                        and (j.lease_token is null or j.visible_at <= pgq._clock())
                    from pgq.job as j
                    where j.job_id = u.job_id
                ) is not true
        )
    )
from pgq.dead_job as d
where d.job_id = any(dead_ids)
$$;

comment on function pgq._count_redrivable(bigint[]) is
'Returns how many of these dead letters of a queue a redrive would move.';
