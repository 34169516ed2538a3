create function pgq.finish_and_claim(
    queue text,
    job_ids bigint[] default null,
    lease_token uuid default null,
    max_jobs integer default 1,
    lease interval default null,
    label text default null,
    max_bytes bigint default 67108864,
    prefetch boolean default false
)
returns setof pgq.claimed_job
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
    target_id bigint;
    lease_length interval;
    most_attempts integer;
    first_time timestamptz;
    first_id bigint;
    token uuid;
    now_at timestamptz;
    fast_path boolean;
    archives boolean;
    own_store_id bigint;
    raised_at timestamptz;
    store_id bigint;
    store_offset bigint;
    ends_at timestamptz;
    leaf integer;
    job_error text;
    was_leased boolean;
    job_key text;
    job_attempts integer;
    extra_work boolean;
    job pgq.claimed_job;
    finished_queue_id bigint;
    finished_attempt integer;
    finished_label text;
begin
    if lease is not null then
        perform pgq._check_interval('lease', lease, false);
    end if;

    -- Fast path: one job of priority 0; _claim_jobs handles all other cases. Few conditions, no
    -- joins and no arrays, since each of them takes time.
    select
        q.queue_id,
        coalesce(finish_and_claim.lease, q.lease),
        coalesce(q.max_attempts, 2147483647),
        gen_random_uuid(),
        pgq._clock(),
        (max_jobs <> 1) is not true
        and (max_bytes < 1) is not true
        and label is null
        and q.has_fast_claim
        and (
            current_setting('transaction_isolation') = 'read committed'
            or pgq._unchanged(q.queue_id)
        ),
        q.fast_archive,
        q.partition_id
    into target_id, lease_length, most_attempts, token, now_at, fast_path, archives, own_store_id
    from pgq.queue as q
    where q.queue = finish_and_claim.queue collate "C"
        and (q.consumers is null or pgq._may(q.consumers));

    if cardinality(job_ids) = 1 then
        -- paste: parts/finish.plpgsql with job_id = finish_and_claim.job_ids[1]

        if finished_queue_id is distinct from target_id then
            if finished_queue_id is null then
                perform pgq._finish_all(job_ids, lease_token);
                archives := false;
            else
                select q.fast_archive, q.partition_id
                into archives, own_store_id
                from pgq.queue as q
                where q.queue_id = finished_queue_id;
            end if;
        end if;

        if archives then
            -- paste: parts/archive.plpgsql with job_id = finish_and_claim.job_ids[1]
        elsif archives is null then
            perform pgq._end_kept(
                job_ids[1], finished_queue_id, leaf, finished_attempt, finished_label, job_error,
                store_id, store_offset
            );
        end if;
    elsif cardinality(job_ids) > 1 then
        perform pgq._finish_all(job_ids, lease_token);
    end if;

    -- paste: parts/claim.plpgsql with most = coalesce(max_jobs,1), least = 0
end
$$;

comment on function pgq.finish_and_claim(
    text, bigint[], uuid, integer, interval, text, bigint, boolean
) is
'Finishes the jobs of a worker and leases it the next ones; MQ006 when it does not hold them.
Both happen in one call and one transaction. job_ids with their lease_token are finished as by
ack_batch; null or an empty array finishes none. They may be of another queue. Then up to max_jobs
(0 to 100000; by default 1) jobs are leased and returned as by claim_job. If the queue is paused,
the jobs are finished, but none are leased. In a queue with max_leased or max_leased_per_key, the
finished jobs make room for the leased ones.
Errors: MQ002 unknown queue, MQ006 one of job_ids is not held under lease_token any more (nothing
was finished or claimed; use ack_batch and claim_job), 22004 a required argument is null, job_ids
are without lease_token, or a null is in them, 22023 bad job_ids, max_jobs, lease, label or
max_bytes, 40001 above READ COMMITTED when another transaction was first (try again).';
