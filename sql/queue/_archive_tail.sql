create function pgq._archive_tail(segment integer, first_page bigint, queue_id bigint, jobs bigint)
returns setof pgq.job_archive
language plpgsql stable parallel safe
as $$
begin
    return query execute format(
        'select a.*
        from pgq.job_archive_%s as a
        where a.ctid >= ''(%s,0)''::tid and a.queue_id = $1
        order by a.ended_at desc, a.job_id desc
        limit $2',
        segment,
        first_page
    )
    using queue_id, jobs;
end
$$;

comment on function pgq._archive_tail(integer, bigint, bigint, bigint) is
'The newest archived jobs of a queue in a segment, from a page of it on: rows are appended.';
