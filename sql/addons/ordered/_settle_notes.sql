create function pgq._settle_notes(
    queue_id bigint, note_floor timestamptz, moment timestamptz, max_notes integer
)
returns integer
language plpgsql volatile parallel unsafe
as $$
declare
    note pgq.ordered_note;
    settled integer := 0;
begin
    for note in
        select n.*
        from pgq.ordered_note as n
        where n.queue_id = _settle_notes.queue_id and n.look_at between note_floor and moment
        order by n.look_at
        limit max_notes
        for update skip locked
    loop
        delete from pgq.ordered_note as n
        where n.queue_id = note.queue_id
            and n.look_at = note.look_at
            and n.ordered_key = note.ordered_key
            and n.after_id = note.after_id;

        if pgq._let_next(note.queue_id, note.ordered_key, note.after_id) then
            settled := settled + 1;
            continue;
        end if;

        -- Back off, from 10 ms to 1 s: a key held up by an open transaction must not delay the
        -- others.
        insert into pgq.ordered_note (queue_id, look_at, ordered_key, after_id, tries)
        values (
            note.queue_id,
            pgq._clock() + least(interval '10 milliseconds' * 2 ^ note.tries, interval '1 second'),
            note.ordered_key, note.after_id, least(note.tries + 1, 10)
        )
        on conflict do nothing;
    end loop;

    return settled;
end
$$;

comment on function pgq._settle_notes(bigint, timestamptz, timestamptz, integer) is
'Processes up to max_notes wake-up records of an ordered queue: unblocks the next job of each key.
Returns how many were settled; the others are tried again later.';
