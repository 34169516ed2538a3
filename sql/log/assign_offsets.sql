create function pgq.assign_offsets(topic text, partition integer default null)
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
    partition_count integer;
begin
    perform pgq._check_access(topic collate "C", null, 'consume');
    select t.partitions
    into partition_count
    from pgq.topic as t
    where t.topic = assign_offsets.topic collate "C";

    if partition_count is null then
        perform pgq._fail_unknown_topic(topic collate "C");
    end if;
    if partition not between 0 and partition_count - 1 then
        perform pgq._fail_unknown_partition(topic collate "C", partition, partition_count);
    end if;

    return query
    select r.*
    from pgq._assign_all(assign_offsets.topic collate "C", assign_offsets.partition, 1000000) as r;
end
$$;

comment on function pgq.assign_offsets(text, integer) is
'Gives offsets to the messages of a deferred topic that were committed and have none yet.
Consumers do that themselves, in their own transaction, when there is nothing else to read and now
and then when there is. Others get these messages only when it commits. Call it first, in a
transaction of its own, before a long transaction with consume, or before fetch, fetch_range or
list_offsets. Returns the offsets that were given, a row per partition, 1000000 in each at most.
Returns no row when there is nothing to do or another transaction is assigning. Other topics never
need it.
Errors: MQ001 unknown topic, MQ007 unknown partition, 22004 a required argument is null, 40001 above
READ COMMITTED when another transaction was first (try again).';
