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
            from pgq.job_archive_%s as a
            inner join pgq.queue as q on q.queue_id = a.queue_id
        )',
        segment
    )
    into found_one;
    return found_one;
end
$$;

comment on function pgq._has_archived(integer) is
'Returns whether a segment holds archived jobs of a queue that still exists.';
