create function pgq._messages_across(
    partition_id bigint, partition integer, first_offset bigint, last_offset bigint,
    cut_short boolean default false
)
returns setof pgq.message_record
language plpgsql stable parallel safe
as $$
declare
    extent record;
begin
    -- A segment can hold several ranges of a partition, e.g. when its retention was changed and
    -- changed back.
    for extent in select r.* from pgq._extents(partition_id, first_offset, last_offset) as r loop
        -- for the first 16 leaves: extent.segment
        return query
        select
            {partition}, m.log_offset + {extent.shift},
            coalesce({extent.published_at}, m.published_at), m.key, m.headers, m.payload, m.body,
            {_messages_across.cut_short}
        from pgq.message_{leaf} as m
        where m.partition_id = {extent.stored_partition_id}
            and m.log_offset between {extent.first_offset} - {extent.shift} and {extent.last_offset}
            - {extent.shift}
        order by m.log_offset;
        -- end of the leaf
    end loop;
end
$$;

comment on function pgq._messages_across(bigint, integer, bigint, bigint, boolean) is
'Returns the messages of a range of a partition in order; the range may span several segments.';
