create function pgq._last_message(
    partition_id bigint, segment integer, first_offset bigint, last_offset bigint
)
returns pgq._stored_message
language plpgsql stable parallel safe
as $$
declare
    message pgq._stored_message;
begin
    -- for the first 48 leaves: _last_message.segment
    select m.log_offset, m.published_at, m.key, m.headers, m.payload, m.body
    from pgq.message_{leaf} as m
    where m.partition_id = {_last_message.partition_id}
        and m.log_offset between {first_offset} and {last_offset}
    order by m.log_offset desc
    limit 1
    into message;
    -- end of the leaf

    return message;
end
$$;

comment on function pgq._last_message(bigint, integer, bigint, bigint) is
'The last message of a range of offsets with its content; all null when there is none.';
