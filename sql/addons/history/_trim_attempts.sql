create function pgq._trim_attempts(job_ids bigint[], leaf integer)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- One leaf: through the parent it would lock all of them.
    execute format(
        'delete from pgq.job_event_%1$s as e
        where e.ctid = any(array(
            select n.tid
            from (
                select
                    o.ctid as tid,
                    row_number() over (
                        partition by o.job_id order by o.ended_at desc, o.attempt desc
                    ) as newest
                from pgq.job_event_%1$s as o
                where o.job_id = any($1)
            ) as n
            where n.newest > 20
        ))',
        leaf
    )
    using job_ids;
end
$$;

comment on function pgq._trim_attempts(bigint[], integer) is
'Removes all but the latest 20 attempts of these jobs from a segment. The caller has locked the
jobs.';
