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
    -- Members that are consuming end first, while publishers still continue; those that come later
    -- find nothing.
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
        raise exception 'topic "%" gets the dead letters of consumer groups', drop_topic.topic
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
    -- So that they are found where nothing is emptied, too, and queues get what is theirs.
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
        -- A subscription may be what is broken.
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

    -- Only now: members that were consuming have ended, and noted their last position.
    delete from pgq.group_position as j where j.group_id = any(group_ids);
end
$$;

comment on function pgq.drop_topic(text) is
'Removes a topic with its messages and consumer groups.
Messages that a deferred topic gets from transactions which are still open are lost, also when these
commit. For other topics it waits for the transactions that publish or consume. Queues get jobs of
what a deferred topic has; where that fails, because of a broken subscription say, it warns and goes
all the same.
The space is given back by cleanup.
Its idempotency keys are forgotten: in a new topic of that name they are new.
Errors: MQ001 unknown topic, 22004 a required argument is null, 2BP01 it is the dead_letter_topic of
a consumer group, 40001 above READ COMMITTED when another transaction was first (try again).';
