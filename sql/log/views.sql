-- A reader of a view needs EXECUTE on its functions, but no rights on its tables. So the views use
-- only helpers that are executable by all; those that return data or names require a key that only
-- the views can read. Rows that the caller may not see are filtered out before any look-up by name,
-- so that no plan reveals them.
-- A reader's condition on a plain column would be evaluated during the table scan and estimated
-- from the table's statistics: EXPLAIN would count hidden rows. As an expression that needs v, the
-- column is evaluated after the join with v, and has no statistics.
-- The linter cannot lay out lateral joins.
-- noqa: disable=AM09,LT02,LT09,LT14,ST05,ST09

create view pgq.messages
with (security_barrier) as
select
    v.topic collate "C" as topic,
    case when v.topic_id is not null then p.partition end as partition,
    m.log_offset,
    case when v.topic_id is not null then m.published_at end as published_at,
    case when v.topic_id is not null then m.key end as key,
    case when v.topic_id is not null then m.headers end as headers,
    case when v.topic_id is not null then m.payload end as payload,
    case when v.topic_id is not null then m.body end as body,
    p.partition_id,
    case when v.topic_id is not null then r.first_offset end as extent_offset
from pgq._visible_topics(
    (select k.key from pgq.view_key as k), current_user, 'consume'
) as v
inner join pgq.partition as p on p.topic_id = v.topic_id
-- Neither subquery can be pulled up (one has a window function, one a UNION ALL with conditions),
-- so their outer references fix the join order: no message is read before v.
cross join lateral (
    select
        n.first_offset,
        n.segment,
        n.stored_partition_id,
        n.shift,
        n.published_at,
        lead(n.first_offset, 1, 9223372036854775807) over (
            order by n.first_offset
        ) as next_offset
    from pgq.segment_range as n
    where n.partition_id = p.partition_id
        and p.topic_id = v.topic_id
) as r
cross join lateral (
    select c.log_offset, c.published_at, c.key, c.headers, c.payload, c.body
    from pgq.message as c
    where c.segment = r.segment
        and c.partition_id = r.stored_partition_id
        and c.log_offset >= r.first_offset
        and c.log_offset < r.next_offset
        and r.shift = 0
    union all
    select
        c.log_offset + r.shift as log_offset,
        coalesce(r.published_at, c.published_at) as published_at,
        c.key,
        c.headers,
        c.payload,
        c.body
    from pgq.message as c
    where c.segment = r.segment
        and c.partition_id = r.stored_partition_id
        and c.log_offset >= r.first_offset - r.shift
        and c.log_offset < r.next_offset - r.shift
        and r.shift <> 0
) as m;

comment on view pgq.messages is
'The messages of all topics, for bulk reads: whole ranges, by several sessions at once.
Name the partition by partition_id = (select pgq.check_range(...)), and give the offsets: that is an
index scan, and raises an error when retention has removed a part of the range. Rows come in any
order. A reader of the view keeps cleanup from truncating any segment until the transaction ends:
keep it short, or read with fetch_range.';
comment on column pgq.messages.topic is 'Name of the topic.';
comment on column pgq.messages.partition is 'Partition, from 0.';
comment on column pgq.messages.log_offset is 'Offset in the partition, from 1.';
comment on column pgq.messages.published_at is 'When it was published.';
comment on column pgq.messages.key is 'Key; null: none.';
comment on column pgq.messages.headers is 'Headers, a JSON object; null: none.';
comment on column pgq.messages.payload is 'Content as JSON; null when the message has a body.';
comment on column pgq.messages.body is 'Content as raw bytes; null when the message has a payload.';
comment on column pgq.messages.partition_id is 'Result of check_range for the partition.';
comment on column pgq.messages.extent_offset is
'First offset of the stored range that contains it.';

create view pgq.group_lag
with (security_barrier) as
select
    v.topic collate "C" as topic,
    case when v.topic_id is not null then l.consumer_group end as consumer_group,
    case when v.topic_id is not null then l.partition end as partition,
    case when v.topic_id is not null then q.next_offset - 1 end as committed_offset,
    case when v.topic_id is not null then s.last_offset end as last_offset,
    case when v.topic_id is not null then s.last_offset - q.next_offset + 1 end as lag,
    case when v.topic_id is not null then s.published_at end as oldest_published_at,
    case
        when v.topic_id is not null and q.leased_until > pgq._clock() then q.leased_until
    end as leased_until,
    case when v.topic_id is not null then coalesce(q.attempt, 0) end as attempt,
    case when v.topic_id is not null then q.last_error end as last_error
from pgq._visible_topics(
    (select k.key from pgq.view_key as k), current_user, 'monitor'
) as v
inner join pgq.partition as p on p.topic_id = v.topic_id
inner join pgq.group_partition as l on l.partition_id = p.partition_id
cross join lateral (
    select
        j.next_offset,
        j.leased_until,
        (j.attempts).attempt as attempt,
        (j.attempts).last_error as last_error
    from pgq.group_position as j
    where j.group_id = l.group_id
        and j.partition = l.partition
    order by j.seq desc
    limit 1
) as q
cross join lateral pgq._partition_figures(
    (select k.key from pgq.view_key as k),
    p.partition_id,
    p.stored_partition_id,
    p.segment,
    p.segment_first_offset,
    q.next_offset,
    null
) as s;

comment on view pgq.group_lag is
'Lag of each consumer group per partition; lag = last_offset - committed_offset.';
comment on column pgq.group_lag.topic is 'Name of the topic.';
comment on column pgq.group_lag.consumer_group is 'Name of the group.';
comment on column pgq.group_lag.partition is 'Partition, from 0.';
comment on column pgq.group_lag.committed_offset is
'Last offset that the group has processed; 0: none. It reads the next one.';
comment on column pgq.group_lag.last_offset is 'Newest offset of the partition; 0: no message yet.';
comment on column pgq.group_lag.lag is
'Number of messages that the group has not read, including those that retention has removed.';
comment on column pgq.group_lag.oldest_published_at is
'When the next message for the group was published; null: it has caught up.';
comment on column pgq.group_lag.leased_until is
'End of a member''s lease, or of the delay after nack_offsets; null: neither.';
comment on column pgq.group_lag.attempt is
'Number of attempts at the next message, including the current one; counted in groups with
max_attempts.';
comment on column pgq.group_lag.last_error is
'Error of the last attempt; null: it did not fail, or no error was given.';

create view pgq.topic_stats
with (security_barrier) as
select
    v.topic collate "C" as topic,
    case when v.topic_id is not null then p.partition end as partition,
    case when v.topic_id is not null then s.first_offset end as first_offset,
    case when v.topic_id is not null then s.last_offset end as last_offset,
    case when v.topic_id is not null then s.last_offset - s.first_offset + 1 end as messages,
    case
        when v.topic_id is not null then s.last_offset + 1 - s.since_offset
    end as published_last_minute
from pgq._visible_topics(
    (select k.key from pgq.view_key as k), current_user, 'monitor'
) as v
inner join pgq.partition as p on p.topic_id = v.topic_id
cross join lateral pgq._partition_figures(
    (select k.key from pgq.view_key as k),
    p.partition_id,
    p.stored_partition_id,
    p.segment,
    p.segment_first_offset,
    null,
    pgq._clock() - interval '1 minute'
) as s;

comment on view pgq.topic_stats is
'Offsets and message counts of each topic partition, in total and of the last minute.';
comment on column pgq.topic_stats.topic is 'Name of the topic.';
comment on column pgq.topic_stats.partition is 'Partition, from 0.';
comment on column pgq.topic_stats.first_offset is 'Oldest offset that is kept.';
comment on column pgq.topic_stats.last_offset is 'Newest offset; 0: no message yet.';
comment on column pgq.topic_stats.messages is 'Number of messages that are kept.';
comment on column pgq.topic_stats.published_last_minute is
'Number of messages published during the last minute.';
