create function pgq._note_leftovers(topic_id bigint, retention interval, dropped boolean)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if _note_leftovers.retention is null then
        -- Kept for ever again, except for what is not visible any more. Whoever removes something
        -- holds its row; what it hides is seen by the next statement.
        perform
        from pgq.leftover as o
        inner join pgq.segment_range as r on r.stored_partition_id = o.partition_id
        inner join pgq.partition as p on p.partition_id = r.partition_id
        where p.topic_id = _note_leftovers.topic_id
        order by o.partition_id, o.segment, o.first_offset
        for update of o;

        delete from pgq.leftover as o
        using pgq.partition as p, pgq.segment_range as r
        where p.topic_id = _note_leftovers.topic_id
            and r.partition_id = p.partition_id
            and o.partition_id = r.stored_partition_id
            and o.segment = r.segment
            and o.first_offset = r.first_offset - r.shift;
        return;
    end if;

    insert into pgq.leftover (partition_id, segment, first_offset, last_offset, remove_at)
    select
        r.stored_partition_id,
        r.segment,
        r.first_offset - r.shift,
        r.next_first_offset - 1 - r.shift,
        pgq._clock() + _note_leftovers.retention
    from (
        select
            s.*,
            coalesce(
                lead(s.first_offset) over (partition by s.partition_id order by s.first_offset),
                9223372036854775807
            ) as next_first_offset
        from pgq.partition as p
        inner join pgq.segment_range as s on s.partition_id = p.partition_id
        where p.topic_id = _note_leftovers.topic_id
    ) as r
    inner join pgq.segment as g on g.segment = r.segment
    inner join pgq.storage_class as c on c.storage_class_id = g.storage_class_id
    where c.retention is null
        -- What a partition still writes to is noted when it has left it.
        and (r.next_first_offset < 9223372036854775807 or _note_leftovers.dropped)
    on conflict (partition_id, segment, first_offset) do update
    set remove_at = least(leftover.remove_at, excluded.remove_at);
end
$$;

comment on function pgq._note_leftovers(bigint, interval, boolean) is
'Notes what a topic that has a retention now, or is dropped, stored without one, to be removed after
that time; or, without a retention, takes such notes back.';
