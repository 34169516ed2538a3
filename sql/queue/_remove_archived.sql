create function pgq._remove_archived(segment integer, queue_id bigint, max_jobs bigint)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    kind text;
    gone bigint;
    removed bigint := 0;
begin
    foreach kind in array array['job_archive', 'job_event'] loop
        execute format(
            'delete from pgq.%1$s_%2$s as a
            where a.ctid = any(array(
                select b.ctid
                from pgq.%1$s_%2$s as b
                where b.queue_id = $1
                limit $2
            ))',
            kind, segment
        )
        using queue_id, max_jobs - removed;
        get diagnostics gone = row_count;
        removed := removed + gone;
    end loop;
    return removed;
end
$$;

comment on function pgq._remove_archived(integer, bigint, bigint) is
'Removes up to max_jobs archived jobs, attempts and results of a queue from a segment, and returns
how many.';
