create function pgq.purge_queue(
    queue text,
    dead_only boolean default null,
    job_id bigint default null,
    all_jobs boolean default null,
    max_jobs integer default null,
    key text default null,
    label text default null,
    error_contains text default null,
    died_since timestamptz default null,
    died_before timestamptz default null,
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
    target_id bigint;
    filter pgq._job_filter := row(
        label, error_contains, key, died_since, died_before, null, max_jobs, after_id
    );
    is_filtered boolean;
    walks boolean;
    found_jobs pgq._found_jobs;
    newest_id bigint;
    gone bigint;
    removed bigint := 0;
    job_ids bigint[];
    dead_job_ids bigint[];
    freed pgq._ended_job[];
    keyed pgq._ended_job[] := '{}';
begin
    -- Jobs added after the snapshot would be overlooked, with no row to conflict on.
    perform pgq._check_read_committed('purge_queue');
    target_id := pgq._queue_id(queue collate "C", 'admin');
    is_filtered := pgq._check_job_filter(queue collate "C", filter);
    walks := num_nonnulls(max_jobs, after_id, nullif(dry_run, false)) > 0;
    perform pgq._check_purge(dead_only, job_id, all_jobs, is_filtered, walks);

    if job_id is not null then
        found_jobs.ids := array[job_id];
    elsif is_filtered or walks then
        found_jobs := pgq._find_jobs('dead', target_id, filter);
    end if;
    if dry_run then
        return next row(
            cardinality(found_jobs.ids), found_jobs.seen, found_jobs.after_id
        )::pgq.bulk_result;
        return;
    end if;

    -- Job batches first: this waits for a claim that makes jobs of a batch; these are deleted
    -- below.
    if all_jobs then
        removed := pgq._drop_extents(target_id);
    end if;

    -- Jobs that are enqueued from now on stay.
    select s.last_value into newest_id from pgq.job_id as s;

    -- In the order in which jobs are locked everywhere: no deadlock. Dead letters last: a job that
    -- dies while this waits for its row is then among them. A row that is replaced, or a letter
    -- that is redriven, while this waits for it is found by the next round.
    loop
        if all_jobs then
            job_ids := array(
                select j.job_id
                from pgq.job as j
                where j.queue_id = target_id and j.job_id <= newest_id
                order by case when j.lease_token is null then j.unique_key end nulls first, j.job_id
                for update
            );
        end if;
        dead_job_ids := coalesce(
            found_jobs.ids,
            array(
                select d.job_id
                from pgq.dead_job as d
                where d.queue_id = target_id
                -- job_id + 0 matches no index: no plan can scan all letters by id.
                order by d.job_id + 0
                for update
            )
        );

        with purged as (
            delete from pgq.job as j
            where j.job_id = any(job_ids)
            returning
                row(
                    j.job_id, j.queue_id, j.unique_key,
                    case when j.due_at is null then j.ordered_key end
                )::pgq._ended_job as ended
        ),

        -- queue_id + 0 matches no index: no plan can scan all letters of the queue.
        purged_dead as (
            delete from pgq.dead_job as d
            where d.job_id = any(dead_job_ids)
                and d.queue_id + 0 = target_id
                and pgq._filter_matches(filter, d.label, d.last_error, d.ordered_key, d.died_at)
            returning
                row(
                    d.job_id, d.queue_id, d.unique_key, case when d.stops_key then d.ordered_key end
                )::pgq._ended_job as ended
        )

        select
            count(*),
            array_agg(e.ended) filter (
                where num_nonnulls((e.ended).unique_key, (e.ended).ordered_key) > 0
            )
        into gone, freed
        from (select p.ended from purged as p union all select d.ended from purged_dead as d) as e;
        removed := removed + gone;
        keyed := keyed || freed;

        exit when all_jobs is not true
            or not exists (
                select
                from pgq.job as j
                where j.queue_id = target_id and j.job_id <= newest_id
            );
    end loop;

    -- After all waits for job rows: an enqueue may wait for these keys.
    perform pgq._free_keys(keyed);
    return next row(
        removed, coalesce(found_jobs.seen, removed), found_jobs.after_id
    )::pgq.bulk_result;
end
$$;

comment on function pgq.purge_queue(
    text, boolean, bigint, boolean, integer, text, text, text, timestamptz, timestamptz, bigint,
    boolean
) is
'Removes unfinished jobs or dead letters of a queue.
all_jobs => true: every unfinished job, including leased ones, and every dead letter; a worker that
has one of them gets false from ack. dead_only => true: the dead letters. job_id: this dead letter;
for an unfinished job use cancel_job. Or the dead letters that match all given filters: label,
error_contains (a text in the last error, not a pattern), key (in an ordered queue), died_since and
died_before.
With a filter, max_jobs (1 to 1000000), after_id or dry_run one call examines at most 10000 dead
letters, in the order of their ids, including those of other queues: call it again with the after_id
that it returned until that is null. dry_run => true only counts. Archived jobs stay, and so do
idempotency keys: a key given with a removed job still identifies it.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 none of dead_only, job_id,
all_jobs and a filter, or several, or a bad argument, or one that is not for job_id or all_jobs,
25001 not under READ COMMITTED.';
