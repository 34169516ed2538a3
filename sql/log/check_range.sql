create function pgq.check_range(
    topic text,
    partition integer,
    first_offset bigint,
    last_offset bigint
)
returns bigint
language plpgsql stable parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    source pgq.partition := pgq._readable_partition(
        topic collate "C", partition, first_offset, last_offset
    );
begin
    if first_offset <= last_offset then
        -- An old snapshot (REPEATABLE READ) still shows the ranges of a truncated segment, but not
        -- its messages: read one message of each segment. The read locks then keep the segments
        -- from being truncated until this transaction ends.
        if first_offset < pgq._first_available(source.partition_id)
            or last_offset > pgq._last_offset(
                source.stored_partition_id, source.segment, source.segment_first_offset
            )
            or exists (
                select
                from pgq._extents(source.partition_id, first_offset, last_offset) as r
                where (
                    pgq._newest(r.stored_partition_id, r.segment, r.first_offset - r.shift)
                ).log_offset is null
            )
        then
            perform pgq._fail_incomplete(source, first_offset, last_offset);
        end if;
    end if;

    return source.partition_id;
end
$$;

comment on function pgq.check_range(text, integer, bigint, bigint) is
'Returns the partition_id of a partition in the view messages, if a range is available as a whole.
Use it to read a range: select ... from pgq.messages where partition_id = (select
pgq.check_range(...)) and log_offset between ...; that query raises the same errors.
Errors: MQ001 unknown topic, MQ004 a part of the range is not there: removed by retention, not yet
published, or not yet replicated (DETAIL has the available offsets), MQ007 unknown partition,
22004 a required argument is null, 40001 when retention removes what is being read (try again).';
