create function pgq._publish_packed(
    topic text,
    packed bytea,
    starts integer[],
    lengths integer[],
    keys text[],
    headers jsonb[],
    partition integer
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    -- Joined with nothing it is read from storage once, not for every message.
    whole bytea := _publish_packed.packed || ''::bytea;
    size integer := cardinality(_publish_packed.lengths);
    state pgq._partition_state;
    newest pgq._newest_message;
    first_offset bigint;
    stamp timestamptz;
begin
    -- As publish_batch does it, but that the contents are cut out while they are stored.
    state := pgq._lock_partition(_publish_packed.topic, _publish_packed.partition, null);

    -- A new statement: its snapshot is younger than the lock, so it sees the newest offset.
    newest := pgq._newest(state.partition_id, state.segment, state.segment_first_offset);
    first_offset := coalesce(newest.log_offset + 1, state.segment_first_offset);
    stamp := greatest(pgq._clock(), newest.published_at, state.segment_entered_at);

    -- for the leaf: state.segment
    insert into pgq.message_{leaf} (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    select
        {state.partition_id},
        b.log_offset,
        {stamp},
        {leaf},
        b.key,
        b.header,
        null,
        substring({whole} from b.start for b.length)
    from (
        select
            generate_series({first_offset}, {first_offset} + {size} - 1) as log_offset,
            unnest({_publish_packed.starts}) as start,
            unnest({_publish_packed.lengths}) as length,
            unnest({_publish_packed.keys}) as key,
            unnest({_publish_packed.headers}) as header
    ) as b;
    -- end of the leaf

    if state.followed and size > 0 then
        perform pgq._deliver(
            state.partition_id, state.segment, first_offset, first_offset + size - 1
        );
    end if;
end
$$;

comment on function pgq._publish_packed(
    text, bytea, integer[], integer[], text[], jsonb[], integer
) is
'Publishes the messages of a chunk, which _check_packed has checked, to one partition.';
