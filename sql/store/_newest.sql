create function pgq._newest(partition_id bigint, segment integer, first_offset bigint)
returns pgq._newest_message
language plpgsql
stable
parallel safe
as $$
#variable_conflict use_column
declare
    newest pgq._newest_message;
begin
    -- for the leaf: _newest.segment
    select m.log_offset, m.published_at
    from pgq.message_{leaf} as m
    where m.partition_id = {_newest.partition_id}
        and m.log_offset >= {_newest.first_offset}
    order by m.log_offset desc
    limit 1
    into newest.log_offset, newest.published_at;
    -- end of the leaf

    return newest;
end
$$;

comment on function pgq._newest(bigint, integer, bigint) is
'The last message of a partition in a segment, from an offset on; null when there is none.';
