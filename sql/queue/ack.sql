create function pgq.ack(job_id bigint, lease_token uuid)
returns boolean
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    number bigint := ack.job_id;
    finished_queue_id bigint;
    finished_leaf integer;
    finished_attempt integer;
    finished_label text;
    finished_error text;
    finished_store_id bigint;
    finished_store_offset bigint;
begin
    if number is null or ack.lease_token is null then
        perform pgq._check_lease(number, ack.lease_token);
    end if;

    -- What _finish does for many, in plain statements: for one job they take less time.
    -- paste: parts/finish.plpgsql

    return finished_queue_id is not null;
end
$$;

comment on function pgq.ack(bigint, uuid) is
'Finishes a job and says whether it did.
The queue notes it among the archived jobs, unless its archive setting is off. False, and nothing
changed: the token is not that of the latest claim, or the job is finished already. A lease that
has run out still counts as long as no other worker got the job.
Errors: 22004 null argument, 40001 under REPEATABLE READ or SERIALIZABLE when the job was changed
since the transaction began (try again).';
