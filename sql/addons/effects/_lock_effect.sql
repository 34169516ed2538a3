create function pgq._lock_effect(job_id bigint, lease_token uuid, effect text)
returns pgq.effect
language plpgsql volatile parallel unsafe
as $$
declare
    held pgq.job;
    known pgq.effect;
    inserted boolean;
begin
    -- The claim that began the effect may record its outcome even after it has lost the job.
    select e.*
    into known
    from pgq.effect as e
    where e.job_id = _lock_effect.job_id
        and e.effect = _lock_effect.effect
        and e.lease_token = _lock_effect.lease_token
    for update;
    if found then
        return known;
    end if;

    held := pgq._lock_leased(job_id, lease_token);
    if held.job_id is not null then
        select e.*
        into known
        from pgq.effect as e
        where e.job_id = _lock_effect.job_id and e.effect = _lock_effect.effect
        for update;
    end if;

    if known.job_id is null and pgq._keeps_snapshot() then
        -- An old snapshot may miss a row begun since: inserting the same key then raises 40001.
        -- That row may even be the caller's own, if it has given the job back since.
        insert into pgq.effect (job_id, effect, lease_token, attempt, begun_at)
        values (job_id, effect, lease_token, coalesce(held.attempt, 1), pgq._clock())
        on conflict do nothing
        returning true
        into inserted;

        if inserted then
            delete from pgq.effect as e
            where e.job_id = _lock_effect.job_id and e.effect = _lock_effect.effect;
        end if;
    end if;

    return known;
end
$$;

comment on function pgq._lock_effect(bigint, uuid, text) is
'Locks and returns the record of an effect, for the claim that began it or that holds the job now;
nulls for any other caller, and where there is no record.';
