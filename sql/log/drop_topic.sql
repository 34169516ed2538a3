create function pgq.drop_topic(topic text)
returns void
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
declare
    target pgq.topic;
    group_ids bigint[];
begin
    perform pgq._check_access(topic collate "C", null, 'admin');
    -- Wait for consuming members first, while publishers continue; later members find no rows.
    perform
    from pgq.group_partition as l
    where l.topic = drop_topic.topic collate "C"
    order by l.consumer_group, l.partition
    for update;

    perform pgq._check_positions(topic collate "C", null);

    target := pgq._lock_topic(topic collate "C");

    if exists (
        select from pgq.consumer_group as g where g.dead_letter_topic_id = target.topic_id
    ) then
        raise exception 'topic "%" gets the dead letters of consumer groups', topic
            using errcode = '2BP01',
                detail = (
                    select
                        string_agg(
                            format('Group "%s" of topic "%s".', g.consumer_group, t.topic),
                            ' '
                            order by t.topic, g.consumer_group
                        )
                    from pgq.consumer_group as g
                    inner join pgq.topic as t on t.topic_id = g.topic_id
                    where g.dead_letter_topic_id = target.topic_id
                ),
                hint = 'Drop them, or change them with pgq.alter_group, before.';
    end if;
    -- Assign offsets to staged messages, so that dropped_range covers them where segments are never
    -- truncated, and subscribed queues get their jobs.
    if target.deferred
        and (
            exists (
                select
                from pgq.storage_class as c
                where c.storage_class_id = target.storage_class_id and c.retention is null
            )
            or exists (select from pgq.subscription as s where s.topic_id = target.topic_id)
        )
        and not pgq._try_assign(target.topic)
    then
        -- A broken subscription may be the cause: delete the subscriptions and try again.
        delete from pgq.subscription as s where s.topic_id = target.topic_id;
        perform pgq._try_assign(target.topic);
    end if;

    group_ids := array(
        select g.group_id from pgq.consumer_group as g where g.topic_id = target.topic_id
    );
    perform pgq._note_dropped_topic(target.topic_id);

    delete from pgq.assignment as a
    using pgq.partition as p
    where p.topic_id = target.topic_id and a.partition_id = p.partition_id;

    delete from pgq.topic as t where t.topic_id = target.topic_id;

    -- Delete last: by now the consuming members have ended and written their last positions.
    delete from pgq.group_position as j where j.group_id = any(group_ids);
end
$$;

comment on function pgq.drop_topic(text) is
'Removes a topic with its messages and consumer groups.
For a topic that is not deferred, the call waits for transactions that publish or consume. Messages
that open transactions have published to a deferred topic are lost, even if these transactions
commit. Subscribed queues get jobs of a deferred topic''s messages first; if that fails, for example
because of a broken subscription, the call warns and drops the topic nevertheless. cleanup frees the
space. The idempotency keys of the topic are removed too.
Errors: MQ001 unknown topic, 22004 a required argument is null, 2BP01 it is the dead_letter_topic of
a consumer group, 40001 above READ COMMITTED when another transaction was first (try again).';
