create function pgq.consume(
    topic text,
    consumer_group text,
    max_messages integer default 100,
    partition integer default null,
    max_bytes bigint default 67108864
)
returns setof pgq.message_record
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
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
    last_message pgq.message_record;
    lease_length interval;
    token uuid;
    taken_to bigint;
    cut_short boolean;
    claimed pgq._claim_state;
    total bigint;
begin
    -- paste: parts/take.plpgsql with reader = read_last

    if taken_to = position and cut_short is not true then
        return next last_message;
        return;
    end if;
    if taken_to is null then
        claimed := pgq._claim_any(
            topic collate "C", consumer_group, max_messages, partition, null,
            case when target_id is null and width > 16 then random() * width >= 16 end,
            coalesce(max_bytes, 67108864)
        );
        if claimed is null then
            return;
        end if;
        chosen := claimed.partition;
        source_id := claimed.partition_id;
        stored_id := claimed.stored_partition_id;
        leaf := claimed.segment;
        position := claimed.first_offset;
        taken_to := claimed.last_offset;
        cut_short := claimed.cut_short;
    end if;

    if leaf is not null then
        -- for the first 16 leaves: leaf
        return query
        select {chosen}, m.log_offset, m.published_at, m.key, m.headers, m.payload, m.body,
            {cut_short}
        from pgq.message_{leaf} as m
        where m.partition_id = {stored_id} and m.log_offset between {position} and {taken_to}
        order by m.log_offset;
        -- end of the leaf
    else
        return query select m.* from pgq._messages_across(
            source_id, chosen, position, taken_to, cut_short
        ) as m;
    end if;

    -- Cleanup may have truncated a segment since the claim.
    get diagnostics total = row_count;
    if total <> taken_to - position + 1 then
        perform pgq._fail_truncated(topic collate "C");
    end if;
end
$$;

comment on function pgq.consume(text, text, integer, integer, bigint) is
'Takes the next messages for a consumer group, moves its position past them, and returns them.
It combines claim_offsets and fetch_range. The position moves in the caller''s transaction: the
caller''s writes in it happen exactly once for each message, and after a rollback the messages are
delivered again. No row: nothing to read for this member now. All rows are of one partition, in
order. max_messages: 1 to 1000000, by default 100. max_bytes: the most content to return, by default
64 MiB; at least one message is always returned. cut_short is true if max_bytes left messages out.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 retention has removed the next message,
MQ007 unknown partition, 22004 a required argument is null, 22023 bad max_messages or max_bytes,
40001 above READ COMMITTED when another transaction was first, or at any level when retention
removes what is being read (try again).';
