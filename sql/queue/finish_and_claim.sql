create function pgq.finish_and_claim(
    queue text,
    job_ids bigint[] default null,
    lease_token uuid default null,
    max_jobs integer default 1,
    lease interval default null,
    label text default null
)
returns setof pgq.claimed_job
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    wanted integer := coalesce(finish_and_claim.max_jobs, 1);
    target_id bigint;
    queue_lease interval;
    max_attempts integer;
    paused boolean;
    floor_times timestamptz[];
    floor_ids bigint[];
    first_time timestamptz;
    first_id bigint;
    recorded_at timestamptz;
    moment timestamptz;
    token uuid;
    number bigint;
    store_id bigint;
    store_offset bigint;
    leased_until timestamptz;
    leaf integer;
    delivery integer;
    job_label text;
    finished_queue_id bigint;
    finished_leaf integer;
    finished_attempt integer;
    finished_label text;
    finished_error text;
    finished_store_id bigint;
    finished_store_offset bigint;
begin
    if wanted not between 0 and 100000 then
        perform pgq._check_count('max_jobs', wanted, 0, 100000);
    end if;
    if finish_and_claim.lease is not null then
        perform pgq._check_interval('lease', finish_and_claim.lease, false);
    end if;

    if cardinality(finish_and_claim.job_ids) = 1 then
        number := finish_and_claim.job_ids[array_lower(finish_and_claim.job_ids, 1)];
        perform pgq._check_lease(number, finish_and_claim.lease_token);

        -- paste: parts/finish.plpgsql

        if finished_queue_id is null then
            perform pgq._fail_job_lost(array[number]);
        end if;
    elsif cardinality(finish_and_claim.job_ids) > 1 then
        perform pgq._finish_all(finish_and_claim.job_ids, finish_and_claim.lease_token);
    end if;

    -- paste: parts/claim.plpgsql
end
$$;

comment on function pgq.finish_and_claim(text, bigint[], uuid, integer, interval, text) is
'Finishes the jobs that a worker has done and leases it the next ones, in one call and transaction.
job_ids with their lease_token are finished as by ack_batch; null or an empty array: nothing is.
Then up to max_jobs (0 to 100000) jobs are leased and returned as by claim_job; 0: none. A paused
queue gives out nothing, but what is done is finished.
Errors: MQ006 one of job_ids is not held under lease_token any more (nothing was finished or
claimed; use ack_batch and claim_job), MQ002 unknown queue, 22004 and 22023 bad arguments, 40001
under REPEATABLE READ or SERIALIZABLE when another transaction was first (try again).';
