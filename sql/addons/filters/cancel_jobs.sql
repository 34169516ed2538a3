create function pgq.cancel_jobs(
    queue text,
    all_jobs boolean default null,
    max_jobs integer default null,
    key text default null,
    label text default null,
    error_contains text default null,
    due_since timestamptz default null,
    due_before timestamptz default null,
    leased boolean default false,
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
        label, error_contains, key, due_since, due_before, leased, max_jobs, after_id
    );
    found_jobs pgq._found_jobs := pgq._find_unfinished(
        'cancel', queue collate "C", all_jobs, filter
    );
begin
    if dry_run is not true then
        -- Lock all before the first one frees its keys: who holds the row of another may wait for a
        -- key. In the order of locks: what an enqueue of unique keys may lock comes last.
        perform
        from pgq.job as j
        where j.job_id = any(found_jobs.ids)
        order by case when j.lease_token is null then j.unique_key end nulls first, j.job_id
        for update;
    end if;

    -- Blocked jobs first: else the first job of their key would unblock the next one, with another
    -- time, or expire it.
    return query
    select
        case
            when dry_run then cardinality(found_jobs.ids)
            else (
                select count(*) filter (where pgq._cancel_job(i.job_id, filter))
                from (
                    select f.job_id
                    from unnest(found_jobs.ids) as f (job_id)
                    order by (select j.due_at is null from pgq.job as j where j.job_id = f.job_id)
                ) as i
            )
        end,
        found_jobs.seen, found_jobs.after_id;
end
$$;

comment on function pgq.cancel_jobs(
    text, boolean, integer, text, text, text, timestamptz, timestamptz, boolean, bigint, boolean
) is
'Cancels the unfinished jobs of a queue that match a filter, as cancel_job does each.
Filters, which must all match: label; error_contains, a text in the last error, not a pattern; key,
in an ordered queue; due_since and due_before, the time at which a job is due or its lease ends.
all_jobs => true instead: every job. leased => true: leased jobs too; by default these stay.
max_jobs: cancel at most this many, 1 to 1000000. dry_run => true only counts. One call examines at
most 10000 jobs, including those of other queues: call it again with the after_id that it returned
until that is null. Jobs that a subscription has not created yet have no id, and stay.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 neither all_jobs nor a filter,
or both, or a bad argument, 40001 above READ COMMITTED when another transaction was first (try
again).';
