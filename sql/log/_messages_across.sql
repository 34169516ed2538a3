create function pgq._messages_across(
    partition_id bigint,
    partition integer,
    first_offset bigint,
    last_offset bigint
)
returns setof pgq.message_record
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    run record;
begin
    -- A topic whose retention was changed and changed back has several runs in one segment.
    for run in
        select r.segment, r.first_offset, r.next_first_offset - 1 as last_offset
        from (
            select
                s.segment,
                s.first_offset,
                lead(s.first_offset) over (order by s.first_offset) as next_first_offset
            from pgq.segment_range as s
            where s.partition_id = _messages_across.partition_id
        ) as r
        where r.first_offset <= _messages_across.last_offset
            and coalesce(r.next_first_offset > _messages_across.first_offset, true)
        order by r.first_offset
    loop
        return query
        select m.*
        from pgq._messages(
            run.segment,
            _messages_across.partition_id,
            _messages_across.partition,
            greatest(run.first_offset, _messages_across.first_offset),
            least(run.last_offset, _messages_across.last_offset)
        ) as m;
    end loop;
end
$$;

comment on function pgq._messages_across(bigint, integer, bigint, bigint) is
'The messages of one partition from a range that may go over several segments, in order.';
