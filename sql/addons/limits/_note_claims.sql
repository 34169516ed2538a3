create function pgq._note_claims(queue_id bigint, job_ids bigint[])
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    state pgq.claim_count := pgq._claims_so_far(queue_id);
begin
    -- The limits may have changed since _allowed_claims, so the credit may not suffice: stop at 0.
    if state.credit is not null then
        state.credit := greatest(state.credit - cardinality(job_ids)::numeric * state.job_cost, 0);
    end if;
    if state.counted_xid is null
        or not exists (
            select
            from pgq.queue as q
            where q.queue_id = _note_claims.queue_id and q.max_leased is not null
        )
    then
        state.counted_xid := null;
        perform pgq._write_claims(state, '{}', true);
    else
        perform pgq._write_claims(state, job_ids, false);
    end if;
end
$$;

comment on function pgq._note_claims(bigint, bigint[]) is
'Counts the jobs of a claim, allowed by _allowed_claims, against the limits of its queue.';
