create function pgq.redrive(
    queue text,
    job_id bigint default null,
    all_jobs boolean default null,
    max_jobs integer default null,
    key text default null,
    label text default null,
    error_contains text default null,
    died_since timestamptz default null,
    died_before timestamptz default null,
    per_second double precision default null,
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
    target pgq.queue;
    filter pgq._job_filter := row(
        label, error_contains, key, died_since, died_before, null, max_jobs, after_id
    );
    is_filtered boolean;
    walks boolean;
    found_jobs pgq._found_jobs;
    ids bigint[];
    taken bigint;
begin
    -- A dead letter added after the snapshot would be overlooked, with no row to conflict on.
    perform pgq._check_read_committed('redrive');
    perform pgq._check_access(null, queue collate "C", 'admin');

    -- Transaction id first, then the clock: the floor relies on it.
    if pg_current_xact_id() is null then
        return;
    end if;

    select q.* into target from pgq.queue as q where q.queue = redrive.queue collate "C";

    if target.queue_id is null then
        perform pgq._fail_unknown_queue(queue collate "C");
    end if;
    is_filtered := pgq._check_job_filter(queue collate "C", filter);
    walks := num_nonnulls(after_id, nullif(dry_run, false)) > 0;
    perform pgq._check_redrive(job_id, all_jobs, max_jobs, per_second, is_filtered, walks);

    if job_id is not null then
        found_jobs.ids := array[job_id];
    elsif is_filtered or walks then
        found_jobs := pgq._find_jobs('dead', target.queue_id, filter);
    end if;

    if dry_run then
        taken := pgq._count_redrivable(found_jobs.ids);
    else
        ids := pgq._lock_dead_letters(target.queue_id, found_jobs.ids, max_jobs, filter);
        taken := pgq._redrive_jobs(target, ids, per_second);
    end if;
    return next row(
        taken, coalesce(found_jobs.seen, cardinality(ids)), found_jobs.after_id
    )::pgq.bulk_result;
end
$$;

comment on function pgq.redrive(
    text, bigint, boolean, integer, text, text, text, timestamptz, timestamptz, double precision,
    bigint, boolean
) is
'Puts dead letters back into their queue.
job_id: this dead letter. all_jobs => true: all of the queue; with max_jobs (1 to 1000000), at most
that many, oldest first, except those locked by another transaction. Or those that match all given
filters: label, error_contains (a text in the last error, not a pattern), key (in an ordered queue),
died_since and died_before.
With a filter one call examines at most 10000 dead letters, in the order of their ids, including
those of other queues: call it again with the after_id that it returned until that is null. dry_run
=> true only counts.
The jobs are due at once, or with per_second (0.001 to 1000000) at this rate from now on, the oldest
first. They start again with all their attempts and the whole job_ttl, counted from when they are
due. A dead letter is not redriven while another job holds its unique_key: taken does not count it.
Errors: MQ002 unknown queue, 22004 a required argument is null, 22023 none of job_id, all_jobs and a
filter, or several, or a bad argument, or one with job_id that is for many, 25001 not under READ
COMMITTED.';
