create function pgq.list_offsets(topic text, published_at timestamptz default null)
returns table (partition integer, first_offset bigint, last_offset bigint, log_offset bigint)
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    perform pgq._check_access(topic collate "C", null, 'monitor');
    return query
    select
        s.partition, s.first_offset, s.last_offset,
        case
            when published_at is not null
                then pgq._offset_at(s.partition_id, published_at, s.first_offset, s.last_offset)
        end
    from (
        select
            p.partition, p.partition_id, pgq._first_available(p.partition_id) as first_offset,
            pgq._last_offset(p.stored_partition_id, p.segment, p.segment_first_offset)
                as last_offset
        from pgq.topic as t
        inner join pgq.partition as p on p.topic_id = t.topic_id
        where t.topic = list_offsets.topic collate "C"
    ) as s
    order by s.partition;

    if not found then
        perform pgq._fail_unknown_topic(topic collate "C");
    end if;
end
$$;

comment on function pgq.list_offsets(text, timestamptz) is
'Returns the first and the last offset that each partition of a topic has.
An empty partition has last_offset = first_offset - 1. With published_at, log_offset is the first
offset published at that time or later, or last_offset + 1 if there is none; otherwise it is null.
Messages published later get higher offsets, so ranges planned from this result stay valid.
Errors: MQ001 unknown topic, 22004 a required argument is null, 40001 when retention removes what is
being read (try again).';
