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

    return query select r.* from pgq._assign_all(topic collate "C", partition, 1000000) as r;
end
$$;

comment on function pgq.assign_offsets(text, integer) is
'Assigns offsets to the committed messages of a deferred topic that have none yet.
Consumers do this in their own transaction when they find nothing else to read, and sometimes when
they do. Other sessions see these messages only after that transaction commits. So call
assign_offsets first, in a separate transaction, before a long transaction with consume, or before
fetch, fetch_range or list_offsets. Returns the assigned offsets, one row per partition, at most
1000000 offsets in each. Returns no row if no message needs an offset, or if another transaction is
assigning offsets. Only deferred topics need it.
Errors: MQ001 unknown topic, MQ007 unknown partition, 22004 a required argument is null, 40001 above
READ COMMITTED when another transaction was first (try again).';
