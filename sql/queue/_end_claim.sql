create function pgq._end_claim(plan pgq._claim_plan, chosen pgq._chosen_jobs, label text)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    found_any boolean := chosen.places is not null;
    raising boolean;
begin
    if chosen.job_ids is not null and plan.is_limited then
        perform pgq._note_claims(plan.queue_id, chosen.job_ids);
    end if;
    if chosen.unique_ids is not null then
        perform pgq._free_claimed(chosen.unique_ids);
    end if;

    -- Now and then, and less often when there is nothing to do. A label may have no floors of its
    -- own: it gets them when it has jobs.
    raising := plan.recorded_at > plan.moment
        or coalesce(plan.label_recorded_at, plan.recorded_at) < plan.moment - case
            when found_any then interval '20 milliseconds' else interval '5 seconds'
        end;
    if (plan.is_ordered or plan.max_leased_per_key is not null)
        and (raising or (cardinality(chosen.places) >= plan.wanted) is not true)
    then
        perform pgq._expire_front(
            plan.queue_id, plan.common_times, plan.common_ids, plan.moment
        );
    end if;
    if not raising then
        return false;
    end if;

    if _end_claim.label is null or (plan.label_recorded_at is null and not found_any) then
        perform pgq._raise_floor(plan.queue_id, plan.moment);
    else
        perform pgq._raise_label_floor(plan.queue_id, _end_claim.label, plan.moment);
    end if;
    return not found_any and pgq._look_below(plan.queue_id, plan.moment);
end
$$;

comment on function pgq._end_claim(pgq._claim_plan, pgq._chosen_jobs, text) is
'Notes what a claim has leased, and raises the floors of its queue. True: the claim found nothing,
and there are jobs below them.';
