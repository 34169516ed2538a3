create function pgq._has_archived(segment integer)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    found_one boolean;
begin
    execute format(
        'select exists (
            select
            from (
                select queue_id from pgq.job_archive_%1$s
                union all
                select queue_id from pgq.job_event_%1$s
            ) as a
            inner join pgq.queue as q on q.queue_id = a.queue_id
        )',
        segment
    )
    into found_one;
    return found_one;
end
$$;

comment on function pgq._has_archived(integer) is
'Returns whether a segment holds archived jobs, attempts or results of a queue that still exists.';
