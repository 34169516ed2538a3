create function pgq._end_claim(plan pgq._claim_plan, chosen pgq._chosen_jobs, label text)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    found_any boolean := chosen.tids is not null;
begin
    if chosen.job_ids is not null and plan.is_limited then
        perform pgq._note_claims(plan.queue_id, chosen.job_ids);
    end if;
    if chosen.lost_ids is not null then
        perform pgq._note_attempts(plan.queue_id, chosen.lost_ids, 'lost', 1, null, null, null);
    end if;
    if chosen.unique_ids is not null then
        perform pgq._free_claimed(chosen.unique_ids);
    end if;

    if not chosen.raising then
        return false;
    end if;

    if label is null or (plan.label_recorded_at is null and not found_any) then
        perform pgq._raise_floor(plan.queue_id, plan.now_at);
    else
        perform pgq._raise_label_floor(plan.queue_id, label, plan.now_at);
    end if;
    return not found_any and pgq._look_below(plan.queue_id, plan.now_at);
end
$$;

comment on function pgq._end_claim(pgq._claim_plan, pgq._chosen_jobs, text) is
'Records what a claim has leased, and raises the floors of its queue if chosen.raising.
Returns true if the claim found no job but there were jobs below the floors, which it has lowered.';
