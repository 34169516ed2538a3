create function pgq.drop_group(topic text, consumer_group text)
returns void
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
declare
    target_id bigint;
begin
    perform pgq._check_access(topic collate "C", null, 'consume');
    loop
        -- Lock order: wait for members (group partitions) first, then lock the topic, since an
        -- alter_topic that adds partitions to its groups locks it, too.
        perform
        from pgq.group_partition as l
        where l.topic = drop_group.topic collate "C"
            and l.consumer_group = drop_group.consumer_group collate "C"
        order by l.partition
        for update;

        perform pgq._check_positions(topic collate "C", consumer_group);

        perform from pgq.topic as t where t.topic = drop_group.topic collate "C" for share;

        delete from pgq.consumer_group as g
        using pgq.topic as t
        where t.topic = drop_group.topic collate "C"
            and g.topic_id = t.topic_id
            and g.consumer_group = drop_group.consumer_group collate "C"
        returning g.group_id
        into target_id;

        exit when target_id is not null;
        -- If the group exists, it was dropped and recreated while this call waited: retry.
        perform pgq._check_group(topic collate "C", consumer_group, null);
    end loop;

    delete from pgq.group_position as j where j.group_id = target_id;
end
$$;

comment on function pgq.drop_group(text, text) is
'Removes a consumer group with its positions; waits for transactions that consume for it.
Errors: MQ001 unknown topic, MQ003 unknown group, 22004 a required argument is null, 40001 above
READ COMMITTED when another transaction was first (try again).';
