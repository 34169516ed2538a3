create function pgq._unblock_key(
    wakeup pgq.key_wakeup, max_leased_per_key integer, now_at timestamptz
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    state pgq.limited_key;
    leased integer;
    up integer;
    wanted integer;
    risen bigint[];
    again interval;
begin
    select k.*
    into state
    from pgq.limited_key as k
    where k.queue_id = wakeup.queue_id and k.limited_key = wakeup.ordered_key
    order by k.seq desc
    limit 1;

    if not found or (state.blocked_from is null and wakeup.after_id <> 0) then
        return;
    end if;

    -- Slots in use: leased jobs, and unblocked jobs that wait for a claim (`up`), if they are due,
    -- which after the clock was set back they may not be.
    select
        count(*) filter (where j.lease_token is not null and j.visible_at > now_at),
        count(*) filter (where j.visible_at <= now_at),
        coalesce(array_agg(j.job_id order by j.job_id), '{}')
    into leased, up, state.job_ids
    from pgq.job as j
    where j.job_id = any(state.job_ids)
        and j.ordered_key || '' = wakeup.ordered_key
        and j.due_at is null
        and (
            j.expires_at is null
            or j.expires_at > now_at
            or (j.lease_token is not null and j.visible_at > now_at)
        );

    if state.blocked_from is not null then
        -- Jobs unblocked by an earlier look may have labels that no claim asks for: double the
        -- number with each try.
        risen := '{}';
        wanted := least(
            (max_leased_per_key - leased)::bigint * (1 << wakeup.tries)
            - case when wakeup.tries = 0 then up else 0 end, 10000
        );
        if wanted > 0 then
            risen := pgq._unblock_jobs(
                wakeup.queue_id, wakeup.ordered_key, state.blocked_from, wanted
            );
        end if;

        state.job_ids := state.job_ids || risen;
        select j.ordered_key
        into state.blocked_from
        from pgq.job as j
        where j.queue_id = wakeup.queue_id
            and j.ordered_key >= state.blocked_from
            and j.ordered_key < wakeup.ordered_key || chr(2)
            and j.due_at is not null
            and length(j.ordered_key) = length(state.blocked_from)
        order by j.ordered_key, j.job_id + 0
        limit 1;

        -- No later event will wake these jobs, or a row was locked: schedule another look.
        if state.blocked_from is not null
            and leased < max_leased_per_key
            and (
                cardinality(risen) < wanted
                or exists (
                    select
                    from pgq.job as j
                    where j.job_id = any(state.job_ids) and j.label is not null
                )
            )
        then
            again := least(interval '50 milliseconds' * (1 << wakeup.tries), interval '1 second');
        end if;
    end if;

    if wakeup.after_id = 0 and state.job_ids = '{}' and state.blocked_from is null then
        -- No job holds a slot or is blocked: remove the key.
        delete from pgq.limited_key as k
        where k.queue_id = state.queue_id
            and k.limited_key = state.limited_key and k.seq = state.seq;
        return;
    end if;

    perform pgq._write_keys(array[state], true);

    insert into pgq.key_wakeup (queue_id, look_at, ordered_key, after_id, tries)
    select wakeup.queue_id, pgq._clock() + a.delay, wakeup.ordered_key, a.after_id, a.tries
    from (
        values
        (again, coalesce(nullif(wakeup.after_id, 0), -1), least(wakeup.tries + 1, 10)),
        (case when wakeup.after_id = 0 then interval '1 minute' end, 0, 0)
    ) as a (delay, after_id, tries)
    where a.delay is not null
    on conflict do nothing;
end
$$;

comment on function pgq._unblock_key(pgq.key_wakeup, integer, timestamptz) is
'Processes a wake-up record: unblocks as many blocked jobs of its key as may be leased now.
The caller holds the claim_lock of the queue.';
