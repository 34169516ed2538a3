create function pgq._keys_of_jobs(segment integer, met pgq._met_job[])
returns table (job_id bigint, limited_key text)
language plpgsql volatile parallel unsafe
as $$
begin
    -- Only the first 255 characters count: an index entry has no room for longer keys.
    -- for the first 16 leaves: segment
    return query
    select t.job_id, left(m.key, 255)
    from unnest({met}) as t
    cross join lateral (
        select n.key
        from pgq.message_{leaf} as n
        where n.partition_id = t.partition_id and n.log_offset = t.log_offset
        limit 1
    ) as m
    where t.segment = {_keys_of_jobs.segment} and m.key is not null;
    -- end of the leaf
end
$$;

comment on function pgq._keys_of_jobs(integer, pgq._met_job[]) is
'Returns the message keys of those of these jobs whose payloads are in the given segment; jobs
without a key are left out.';
