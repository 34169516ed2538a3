create function pgq._hold_keys(queue_id bigint, ordered_keys text[])
returns pgq._ended_job[]
language plpgsql volatile parallel unsafe
as $$
declare
    free text[] := pgq._join_order(queue_id, ordered_keys);
    newest_id bigint := coalesce(pg_sequence_last_value('pgq.job_id'), 0);
begin
    return array(
        select row(newest_id, queue_id, null, f.ordered_key)::pgq._ended_job
        from unnest(free) as f (ordered_key)
    );
end
$$;

comment on function pgq._hold_keys(bigint, text[]) is
'Locks keys of an ordered queue, in ascending order, for jobs that are added in several steps.
The added jobs are all blocked at first. The caller then passes the result to _free_keys, which
unblocks the first job of each key that was free, or removes the key.';
