create function pgq._allowed_claims(queue_id bigint, wanted integer)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    allowed integer := wanted;
    state pgq.claim_count;
    switched_xid xid8;
    most integer;
    limited boolean;
    anew boolean;
    handed_out bigint[] := '{}';
    leased_ids bigint[];
    late_ids bigint[];
    now_at timestamptz;
begin
    -- Serialize the claims of this queue: each keeps this lock until its transaction ends. It is
    -- the last in the order of locks: the holder waits for no other in its call, so one call cannot
    -- deadlock.
    select l.counted_xid
    into switched_xid
    from pgq.claim_lock as l
    where l.queue_id = _allowed_claims.queue_id
    for update;

    -- Read after locking: these statements have snapshots younger than the lock.
    select q.max_leased, q.rate_limit is not null
    into most, limited
    from pgq.queue as q
    where q.queue_id = _allowed_claims.queue_id;
    state := pgq._claims_so_far(queue_id);

    if limited then
        allowed := least(allowed, trunc(state.credit / state.job_cost));
    end if;
    if most is null or allowed = 0 then
        return allowed;
    end if;

    now_at := pgq._clock();
    anew := state.counted_xid is distinct from switched_xid;
    if anew or pgq._has_ended(state.horizon) then
        -- max_leased was just enabled: count all leased jobs. Count once more when every
        -- transaction that was running then has ended: its claims may not have seen the limit.
        handed_out := pgq._leased_jobs(queue_id, now_at);
        state.horizon := case when anew then pg_current_xact_id() end;
        state.counted_xid := switched_xid;
        anew := true;
    end if;

    if anew or state.leased + allowed > most then
        -- Look up claimed jobs by id, so the cost does not depend on the size of the queue.
        select
            coalesce(array_agg(j.job_id) filter (where j.visible_at > now_at), '{}'),
            array_agg(j.job_id) filter (where j.visible_at <= now_at)
        into leased_ids, late_ids
        from pgq.job as j
        where j.job_id = any(handed_out || array(
            select unnest(c.job_ids)
            from pgq.claim_count as c
            where c.queue_id = _allowed_claims.queue_id
                and c.seq between state.first_seq and state.seq
            ))
            and j.lease_token is not null;

        if late_ids is not null then
            -- A locked job whose lease has run out still counts: its transaction may be extending
            -- the lease. Lock the others until this transaction ends: an extend_lease then waits,
            -- and finds the lease run out.
            leased_ids := leased_ids || array(
                select unnest(late_ids)
                except
                select l.job_id
                from (
                    select j.job_id
                    from pgq.job as j
                    where j.job_id = any(late_ids) and j.visible_at - now_at <= interval '0'
                    order by j.job_id
                    for update skip locked
                ) as l
            );
        end if;
    end if;

    if anew or cardinality(leased_ids) < state.leased then
        perform pgq._write_claims(state, leased_ids, true);
        state.leased := cardinality(leased_ids);
    end if;
    return greatest(least(allowed, most - state.leased), 0);
end
$$;

comment on function pgq._allowed_claims(bigint, integer) is
'Returns how many of the wanted jobs a claim may take under max_leased and rate_limit of its queue.
Locks out other claims of the queue until the transaction ends.';
