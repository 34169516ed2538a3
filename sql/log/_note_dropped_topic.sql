create function pgq._note_dropped_topic(topic_id bigint)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    insert into pgq.dropped_range (partition_id, segment, first_offset, last_offset)
    select
        r.stored_partition_id, r.segment, r.first_offset - r.shift,
        r.next_first_offset - 1 - r.shift
    from (
        select
            s.*,
            lead(s.first_offset, 1, 9223372036854775807)
                over (partition by s.partition_id order by s.first_offset) as next_first_offset
        from pgq.partition as p
        inner join pgq.segment_range as s on s.partition_id = p.partition_id
        where p.topic_id = _note_dropped_topic.topic_id
    ) as r
    inner join pgq.segment as g on g.segment = r.segment
    inner join pgq.storage_class as c on c.storage_class_id = g.storage_class_id
    where c.retention is null
    on conflict do nothing;
end
$$;

comment on function pgq._note_dropped_topic(bigint) is
'Records in dropped_range the messages of a topic being dropped whose segments are never
truncated.';
