create function pgq._claims_so_far(queue_id bigint)
returns pgq.claim_count
language plpgsql volatile parallel unsafe
as $$
declare
    state pgq.claim_count;
    limits pgq.queue;
    cost bigint;
    now_at timestamptz;
begin
    select c.*
    into state
    from pgq.claim_count as c
    where c.queue_id = _claims_so_far.queue_id
    order by c.seq desc
    limit 1;

    if state.queue_id is null then
        state.queue_id := queue_id;
        state.seq := 0;
        state.first_seq := 1;
        state.leased := 0;
    end if;

    select q.* into limits from pgq.queue as q where q.queue_id = _claims_so_far.queue_id;

    -- Credit is a whole number, so repeated refills add no rounding error.
    if limits.rate_limit is not null then
        now_at := pgq._clock();
        if state.refilled_at > now_at then
            -- The clock was set back: refill from the new time on, and record it even if this claim
            -- gets no job.
            state.refilled_at := now_at;
            perform pgq._write_claims(state, '{}', false);
            state.seq := state.seq + 1;
        end if;
        cost := round(extract(epoch from limits.rate_interval)::numeric * 1000000);
        state.credit := least(
            coalesce(
                trunc(state.credit * cost / state.job_cost)
                + round(extract(epoch from now_at - state.refilled_at)::numeric * 1000000)
                * limits.rate_limit, limits.rate_burst::numeric * cost
            ),
            limits.rate_burst::numeric * cost
        );
        state.job_cost := cost;
        state.refilled_at := now_at;
    end if;

    return state;
end
$$;

comment on function pgq._claims_so_far(bigint) is
'Returns the claim counters of a queue, with the credit of its rate_limit refilled up to now.
The caller holds its claim_lock.';
