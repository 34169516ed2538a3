create function pgq._settle_key(
    note pgq.ordered_note, max_leased_per_key integer, moment timestamptz
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
    where k.queue_id = note.queue_id and k.limited_key = note.ordered_key
    order by k.seq desc
    limit 1;

    if not found or (state.parked_from is null and note.after_id <> 0) then
        return;
    end if;

    -- Slots in use: leased jobs, and unblocked jobs that wait for a claim (`up`).
    select
        count(*) filter (where j.lease_token is not null and j.visible_at > moment),
        count(*) filter (where j.lease_token is null or j.visible_at <= moment),
        coalesce(array_agg(j.job_id order by j.job_id), '{}')
    into leased, up, state.job_ids
    from pgq.job as j
    where j.job_id = any(state.job_ids)
        and j.ordered_key || '' = note.ordered_key
        and j.due_at is null
        and (
            j.expires_at is null
            or j.expires_at > moment
            or (j.lease_token is not null and j.visible_at > moment)
        );

    if state.parked_from is not null then
        -- Jobs unblocked by an earlier look may have labels that no claim asks for: double the
        -- number with each try.
        risen := '{}';
        wanted := least(
            (max_leased_per_key - leased)::bigint * (1 << note.tries)
            - case when note.tries = 0 then up else 0 end, 10000
        );
        if wanted > 0 then
            risen := pgq._unpark_jobs(note.queue_id, note.ordered_key, state.parked_from, wanted);
        end if;

        state.job_ids := state.job_ids || risen;
        select j.ordered_key
        into state.parked_from
        from pgq.job as j
        where j.queue_id = note.queue_id
            and j.ordered_key >= state.parked_from
            and j.ordered_key < note.ordered_key || chr(2)
            and j.due_at is not null
            and length(j.ordered_key) = length(state.parked_from)
        order by j.ordered_key, j.job_id + 0
        limit 1;

        -- No later event will wake these jobs, or a row was locked: schedule another look.
        if state.parked_from is not null
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
            again := least(interval '50 milliseconds' * (1 << note.tries), interval '1 second');
        end if;
    end if;

    if note.after_id = 0 and state.job_ids = '{}' and state.parked_from is null then
        -- No job holds a slot or is blocked: remove the key.
        delete from pgq.limited_key as k
        where k.queue_id = state.queue_id
            and k.limited_key = state.limited_key and k.seq = state.seq;
        return;
    end if;

    perform pgq._write_keys(array[state], true);

    insert into pgq.ordered_note (queue_id, look_at, ordered_key, after_id, tries)
    select note.queue_id, pgq._clock() + a.delay, note.ordered_key, a.after_id, a.tries
    from (
        values
        (again, coalesce(nullif(note.after_id, 0), -1), least(note.tries + 1, 10)),
        (case when note.after_id = 0 then interval '1 minute' end, 0, 0)
    ) as a (delay, after_id, tries)
    where a.delay is not null
    on conflict do nothing;
end
$$;

comment on function pgq._settle_key(pgq.ordered_note, integer, timestamptz) is
'Processes a wake-up record: unblocks as many parked jobs of its key as may be leased now.
The caller holds the claim_lock of the queue.';
