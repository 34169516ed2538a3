create function pgq.retry_jobs(
    queue text,
    all_jobs boolean default null,
    max_jobs integer default null,
    key text default null,
    label text default null,
    error_contains text default null,
    due_since timestamptz default null,
    due_before timestamptz default null,
    after_id bigint default null,
    dry_run boolean default false
)
returns setof pgq.bulk_result
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    filter pgq._job_filter := row(
        label, error_contains, key, due_since, due_before, null, max_jobs, after_id
    );
    found_jobs pgq._found_jobs := pgq._find_unfinished(
        'retry', queue collate "C", all_jobs, filter
    );
begin
    -- Transaction id first, also if there is no job: a standby refuses the call then too.
    if dry_run is not true then
        perform pg_current_xact_id();
    end if;

    return query
    select
        case
            when dry_run then cardinality(found_jobs.ids)
            else (
                select count(*) filter (where pgq._retry_job(i.job_id, filter))
                from (
                    -- The order in which an enqueue of their unique keys locks them: no deadlock.
                    select j.job_id
                    from pgq.job as j
                    where j.job_id = any(found_jobs.ids)
                    order by j.unique_key nulls first, j.job_id
                ) as i
            )
        end,
        found_jobs.seen, found_jobs.after_id;
end
$$;

comment on function pgq.retry_jobs(
    text, boolean, integer, text, text, text, timestamptz, timestamptz, bigint, boolean
) is
'Makes the waiting jobs of a queue that match a filter due now, as retry_job does each.
Filters, which must all match: label; error_contains, a text in the last error, not a pattern; key,
in an ordered queue; due_since and due_before, the time at which a job is due. all_jobs => true
instead: every waiting job. max_jobs: retry at most this many, 1 to 1000000. dry_run => true only
counts. One call examines at most 10000 jobs, including those of other queues: call it again with
the after_id that it returned until that is null.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 neither all_jobs nor a filter,
or both, or a bad argument, 40001 above READ COMMITTED when another transaction was first (try
again).';
