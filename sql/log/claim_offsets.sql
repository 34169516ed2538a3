create function pgq.claim_offsets(
    topic text,
    consumer_group text,
    max_messages integer default 100,
    partition integer default null
)
returns setof pgq.offset_range
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    claimed pgq._claim_state;
begin
    claimed := pgq._claim(
        topic collate "C", consumer_group, max_messages, partition, null, 9223372036854775807
    );
    if claimed.partition is null then
        return;
    end if;

    return query select claimed.partition, claimed.first_offset, claimed.last_offset;
end
$$;

comment on function pgq.claim_offsets(text, text, integer, integer) is
'Takes the next messages for a consumer group and moves its position past them.
The position moves in the caller''s transaction. Returns one row with the partition and its first
and last offset, to be read with fetch_range; no row when there is nothing to read for this member
now. If the transaction rolls back, or the client dies, the messages are delivered again. Without a
partition it takes one that has messages and that no other member holds, so members can join and
leave at any time; other members skip that partition until this transaction ends. max_messages: 1 to
1000000, by default 100.
Errors: MQ001 unknown topic, MQ003 unknown group, MQ004 retention has removed the next message,
MQ007 unknown partition, 22004 a required argument is null, 22023 bad max_messages, 40001
above READ COMMITTED when another transaction was first, or at any level when retention removes
what is being read (try again).';
