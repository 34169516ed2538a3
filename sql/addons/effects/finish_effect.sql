create function pgq.finish_effect(
    job_id bigint,
    lease_token uuid,
    effect text,
    result jsonb default null
)
returns boolean
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
    known pgq.effect;
begin
    perform pgq._check_lease(job_id, lease_token);
    perform pgq._check_effect(effect collate "C");

    known := pgq._lock_effect(job_id, lease_token, effect collate "C");
    if known.finished_at is not null then
        return known.lease_token = lease_token;
    end if;

    update pgq.effect as e
    set
        lease_token = finish_effect.lease_token, finished_at = pgq._clock(),
        result = finish_effect.result
    where e.job_id = known.job_id and e.effect = known.effect;
    if not found then
        return false;
    end if;

    perform pgq._flush_commit();
    return true;
end
$$;

comment on function pgq.finish_effect(bigint, uuid, text, jsonb) is
'Records that an effect of a job has happened; false when the caller does not hold it any more.
The worker that began it holds it, even after its lease has run out, and so does the worker that has
the job now: for example a worker that got the state interrupted and has found out that the effect
did happen. result: passed to later attempts of the job; null: none. The record is final: another
call with the same token returns true and changes nothing. False: the effect was never begun, its
record was deleted, another worker has begun or finished it, or the job has ended and cleanup has
removed the record. The commit is flushed to disk, even if the session turned synchronous_commit
off.
Errors: 22004 a required argument is null, 22023 bad effect, 40001 above READ COMMITTED when another
transaction was first (try again).';
