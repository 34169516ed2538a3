create function pgq.delete_effect(job_id bigint, lease_token uuid, effect text)
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

    delete from pgq.effect as e
    where e.job_id = known.job_id and e.effect = known.effect and e.finished_at is null;
    return found;
end
$$;

comment on function pgq.delete_effect(bigint, uuid, text) is
'Deletes the record that an effect was begun; false when the caller does not hold it any more.
After this the next begin_effect begins it again. Call this only if you know that the effect did not
happen and that no worker is running it: as the worker that began it, if it failed before it did
anything; as the worker that has the job now; or as an operator, with the lease_token that the view
effects shows. False: the effect is finished, has no record, or another worker has begun it since.
Errors: 22004 a required argument is null, 22023 bad effect, 40001 above READ COMMITTED when another
transaction was first (try again).';
