create function pgq._remove_archived(segment integer, queue_id bigint, max_jobs bigint)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    removed bigint;
begin
    execute format(
        'delete from pgq.job_archive_%1$s as a
        where a.ctid = any(array(
            select b.ctid
            from pgq.job_archive_%1$s as b
            where b.queue_id = $1
            limit $2
        ))',
        segment
    )
    using queue_id, max_jobs;
    get diagnostics removed = row_count;
    return removed;
end
$$;

comment on function pgq._remove_archived(integer, bigint, bigint) is
'Removes up to max_jobs archived jobs of a queue from a segment, and returns how many.';
