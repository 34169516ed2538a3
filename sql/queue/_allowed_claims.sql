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
    moment timestamptz;
begin
    -- Claims of such a queue are one after the other. Only they hold this lock, to the end of their
    -- transactions. Whoever has it waits for nothing more in its call.
    select l.counted_xid
    into switched_xid
    from pgq.claim_lock as l
    where l.queue_id = _allowed_claims.queue_id
    for update;

    -- New statements, whose snapshots are younger than the lock.
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

    moment := pgq._clock();
    anew := state.counted_xid is distinct from switched_xid;
    if anew
        or state.horizon <> pg_current_xact_id()
        and (
            state.horizon <= pg_snapshot_xmin(pg_current_snapshot())
            or state.horizon >= pg_snapshot_xmax(pg_current_snapshot())
        )
    then
        -- max_leased was switched on: all that is leased counts. And once more, when all have ended
        -- that were under way then and may not have known it. An id that is too high is from before
        -- a restore into another cluster.
        handed_out := array(
            select k.job_id
            from generate_series(0, 9) as p (priority)
            cross join lateral (
                select j.job_id
                from pgq.job as j
                where j.queue_id = _allowed_claims.queue_id
                    and j.priority = p.priority
                    and j.visible_at > moment
                    and j.lease_token is not null
            ) as k
        );
        state.horizon := case when anew then pg_current_xact_id() end;
        state.counted_xid := switched_xid;
        anew := true;
    end if;

    if anew or state.leased + allowed > most then
        -- Which of those that were handed out are still leased: found by their ids, whatever else
        -- is in the queue.
        select
            coalesce(array_agg(j.job_id) filter (where j.visible_at > moment), '{}'),
            array_agg(j.job_id) filter (where j.visible_at <= moment)
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
            -- One that somebody has locked may be on the way to a longer lease. The others keep
            -- theirs as it is until this transaction ends: whoever extends one waits, and then
            -- finds it run out.
            leased_ids := leased_ids || array(
                select unnest(late_ids)
                except
                select l.job_id
                from (
                    select j.job_id
                    from pgq.job as j
                    where j.job_id = any(late_ids) and j.visible_at - moment <= interval '0'
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
'How many of the wanted jobs a claim may take by max_leased and rate_limit of its queue. It locks
out other claims of the queue until the transaction ends.';
