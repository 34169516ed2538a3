create function pgq._enter_segment(topic text, state pgq._partition_state)
returns pgq._partition_state
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    entered pgq._partition_state := _enter_segment.state;
    tip_offset bigint;
    tip_published_at timestamptz;
begin
    -- The share lock keeps the segment open until this transaction ends. A caller that waited for
    -- the partition may have read an old topic row, so it is read again here.
    select t.segment
    into entered.topic_segment
    from pgq.topic as t
    where t.topic = _enter_segment.topic
    for share;

    if entered.topic_segment = entered.segment then
        return entered;
    end if;

    select m.log_offset, m.published_at
    into tip_offset, tip_published_at
    from pgq.message as m
    where m.segment = entered.segment
        and m.partition_id = entered.partition_id
        and m.log_offset >= entered.segment_first_offset
    order by m.log_offset desc
    limit 1;

    entered.segment := entered.topic_segment;
    entered.segment_first_offset := coalesce(tip_offset + 1, entered.segment_first_offset);
    entered.segment_entered_at := greatest(tip_published_at, entered.segment_entered_at);

    update pgq.partition as p
    set
        segment = entered.segment,
        segment_first_offset = entered.segment_first_offset,
        segment_entered_at = entered.segment_entered_at
    where p.partition_id = entered.partition_id;

    -- A segment that got no message of this partition leaves no range behind.
    insert into pgq.segment_range (partition_id, first_offset, segment)
    values (entered.partition_id, entered.segment_first_offset, entered.segment)
    on conflict (partition_id, first_offset) do update set segment = excluded.segment;

    return entered;
end
$$;

comment on function pgq._enter_segment(text, pgq._partition_state) is
'Moves a partition, whose row the caller has locked, to the segment that its topic writes to now.';
