create function pgq._take_keys(
    queue_id bigint, unique_keys text[], job_ids bigint[], waiting boolean
)
returns bigint[]
language plpgsql volatile parallel unsafe
as $$
declare
    holders bigint[] := job_ids;
    wish record;
begin
    -- Lock in ascending order, one at a time: no deadlock.
    for wish in
        select w.unique_key, w.job_id, w.ordinal
        from unnest(unique_keys, job_ids) with ordinality as w (unique_key, job_id, ordinal)
        where w.unique_key is not null
        order by w.unique_key collate "C", w.job_id
    loop
        holders[wish.ordinal] := pgq._take_key(queue_id, wish.unique_key, wish.job_id, waiting);
    end loop;

    return holders;
end
$$;

comment on function pgq._take_keys(bigint, text[], bigint[], boolean) is
'Does the same as _take_key for many jobs; for a job without a key it returns the job''s own id.';
