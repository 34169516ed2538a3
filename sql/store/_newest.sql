create function pgq._newest(
    partition_id bigint, segment integer, first_offset bigint,
    last_offset bigint default 9223372036854775807
)
returns pgq._newest_message
language plpgsql stable parallel safe
as $$
declare
    newest pgq._newest_message;
begin
    -- for the first 48 leaves: _newest.segment
    select m.log_offset, m.published_at
    from pgq.message_{leaf} as m
    where m.partition_id = {_newest.partition_id}
        and m.log_offset between {first_offset} and {last_offset}
    order by m.log_offset desc
    limit 1
    into newest;
    -- end of the leaf

    return newest;
end
$$;

comment on function pgq._newest(bigint, integer, bigint, bigint) is
'The offset and publish time of the last message of a range of offsets; null when there is none.';
