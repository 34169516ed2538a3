create function pgq._settle_keys(
    queue_id bigint, max_leased_per_key integer, look_from timestamptz, look_until timestamptz,
    moment timestamptz, max_notes integer
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

        perform pgq._settle_key(note, max_leased_per_key, moment);
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
