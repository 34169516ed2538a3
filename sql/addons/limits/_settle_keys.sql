create function pgq._settle_keys(
    queue_id bigint, max_leased_per_key integer, look_from timestamptz, look_until timestamptz,
    moment timestamptz, max_notes integer
)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    note pgq.ordered_note;
    state pgq.limited_key;
    leased integer;
    up integer;
    wanted integer;
    holders bigint[];
    risen bigint[];
    again interval;
    settled integer := 0;
begin
    for note in
        select n.*
        from pgq.ordered_note as n
        where n.queue_id = _settle_keys.queue_id and n.look_at between look_from and look_until
        order by n.look_at
        limit max_notes
        for update skip locked
    loop
        delete from pgq.ordered_note as n
        where n.queue_id = note.queue_id
            and n.look_at = note.look_at
            and n.ordered_key = note.ordered_key
            and n.after_id = note.after_id;
        settled := settled + 1;

        select k.*
        into state
        from pgq.limited_key as k
        where k.queue_id = note.queue_id and k.limited_key = note.ordered_key
        order by k.seq desc
        limit 1;

        continue when not found or (state.parked_from is null and note.after_id <> 0);

        -- Slots in use: leased jobs, and unblocked jobs that wait for a claim (`up`).
        select
            count(*) filter (where j.lease_token is not null and j.visible_at > moment),
            count(*) filter (where j.lease_token is null or j.visible_at <= moment),
            coalesce(array_agg(j.job_id order by j.job_id), '{}')
        into leased, up, holders
        from pgq.job as j
        where j.job_id = any(state.job_ids)
            and j.ordered_key || '' = note.ordered_key
            and j.due_at is null
            and (
                j.expires_at is null
                or j.expires_at > moment
                or (j.lease_token is not null and j.visible_at > moment)
            );

        again := null;
        risen := '{}';
        if state.parked_from is not null then
            -- Jobs unblocked by an earlier look may have labels that no claim asks for: double the
            -- number with each try.
            wanted := least(
                (max_leased_per_key - leased)::bigint * (1 << note.tries)
                - case when note.tries = 0 then up else 0 end, 10000
            );
            if wanted > 0 then
                risen := pgq._unpark_jobs(
                    note.queue_id, note.ordered_key, state.parked_from, wanted
                );
            end if;

            select min(p.ordered_key)
            into state.parked_from
            from (
                select j.ordered_key
                from pgq.job as j
                where j.queue_id = note.queue_id
                    and j.ordered_key >= state.parked_from
                    and j.ordered_key < note.ordered_key || chr(2)
                    and j.due_at is not null
                    and length(j.ordered_key) = length(state.parked_from)
                order by j.ordered_key, j.job_id + 0
                limit 1
            ) as p;

            -- No later event will wake these jobs, or a row was locked: schedule another look.
            if state.parked_from is not null
                and leased < max_leased_per_key
                and (
                    cardinality(risen) < wanted
                    or exists (
                        select
                        from pgq.job as j
                        where j.job_id = any(holders || risen) and j.label is not null
                    )
                )
            then
                again := least(interval '50 milliseconds' * (1 << note.tries), interval '1 second');
            end if;
        end if;

        if note.after_id = 0 and cardinality(holders || risen) = 0 and state.parked_from is null
        then
            -- No job holds a slot or is blocked: remove the key.
            delete from pgq.limited_key as k
            where k.queue_id = state.queue_id
                and k.limited_key = state.limited_key and k.seq = state.seq;
            continue;
        end if;

        state.job_ids := holders || risen;
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
    end loop;

    return settled;
end
$$;

comment on function pgq._settle_keys(
    bigint, integer, timestamptz, timestamptz, timestamptz, integer
) is
'Processes up to max_notes wake-up records with a look_at from look_from to look_until: unblocks as
many parked jobs of their keys as may be leased now. Returns how many records it processed. The
caller holds the claim_lock of the queue.';
