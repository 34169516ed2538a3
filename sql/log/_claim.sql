create function pgq._claim(
    topic text, consumer_group text, max_messages integer, partition integer, lease interval,
    max_bytes bigint
)
returns pgq._claim_state
language plpgsql volatile parallel unsafe
as $$
declare
    start_at integer;
    width integer;
    target_id bigint;
    chosen integer;
    source_id bigint;
    stored_id bigint;
    leaf integer;
    entered_offset bigint;
    current_seq bigint;
    position bigint;
    ready boolean;
    last_message pgq._newest_message;
    lease_length interval := lease;
    token uuid := case when lease is not null then gen_random_uuid() end;
    taken_to bigint;
    cut_short boolean;
    claimed pgq._claim_state;
begin
    -- paste: parts/take.plpgsql with reader = find_last

    if taken_to is not null then
        claimed.partition := chosen;
        claimed.partition_id := source_id;
        claimed.stored_partition_id := stored_id;
        claimed.first_offset := position;
        claimed.last_offset := taken_to;
        claimed.segment := leaf;
        claimed.cut_short := coalesce(cut_short, false);
        claimed.lease_token := token;
        return claimed;
    end if;

    return pgq._claim_any(
        topic, consumer_group, max_messages, partition, lease,
        case when target_id is null and width > 16 then random() * width >= 16 end, max_bytes
    );
end
$$;

comment on function pgq._claim(text, text, integer, integer, interval, bigint) is
'Claims the next messages of a partition for a group: the common part of claim_offsets and poll.
With a null lease it moves the position at once. Returns null if there is nothing to read; a null
segment means that the messages may be in several segments.';
