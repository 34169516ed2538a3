create function pgq.unsubscribe(subscription text)
returns void
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
declare
    target_id bigint;
    deferred_topic text;
begin
    perform pgq._check_subscription_access(subscription collate "C");
    loop
        select s.topic_id
        into target_id
        from pgq.subscription as s
        where s.subscription = unsubscribe.subscription collate "C";

        if target_id is null then
            perform pgq._fail_unknown_subscription(subscription collate "C");
        end if;

        -- As in subscribe, lock all partitions: publishers that know the subscription end first.
        perform
        from pgq.partition as p
        where p.topic_id = target_id
        order by p.partition
        for update;

        -- Assign offsets to messages that were published before: these are still delivered.
        select t.topic
        into deferred_topic
        from pgq.topic as t
        where t.topic_id = target_id and t.deferred;

        if deferred_topic is not null then
            perform pgq._try_assign(deferred_topic collate "C");
        end if;

        delete from pgq.subscription as s
        where s.subscription = unsubscribe.subscription collate "C" and s.topic_id = target_id;

        -- Not found: it was removed while this waited, and one of the same name may exist by now.
        exit when found;
    end loop;

    update pgq.partition as p
    set has_delivery = pgq._has_delivery(t)
    from pgq.topic as t
    where p.topic_id = target_id and t.topic_id = p.topic_id;
end
$$;

comment on function pgq.unsubscribe(text) is
'Removes a subscription; the jobs that it has created stay.
The call waits for transactions that publish to the topic. In a deferred topic it does not wait, and
assigns offsets to messages that were committed before: these are still delivered. If that fails,
for example because of a broken subscription, the call warns and still removes the subscription. The
caller needs access to consume the topic and to publish to the queue, or admin access to one of
them.
Errors: MQ011 unknown subscription, 22004 a required argument is null, 40001 above READ COMMITTED
when another transaction was first (try again).';
