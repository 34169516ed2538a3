create function pgq._check_subscription_access(subscription text)
returns void
language plpgsql stable parallel unsafe
as $$
declare
    target record;
begin
    for target in
        select t.topic, q.queue
        from pgq.subscription as s
        inner join pgq.topic as t on t.topic_id = s.topic_id
        inner join pgq.queue as q on q.queue_id = s.queue_id
        where s.subscription = _check_subscription_access.subscription
    loop
        if pgq._administers(target.topic, null) or pgq._administers(null, target.queue) then
            return;
        end if;
        exit when not pgq._may_use(target.topic, target.queue, 'monitor');
        perform pgq._check_access(target.topic, null, 'consume');
        perform pgq._check_access(null, target.queue, 'publish');
        return;
    end loop;

    perform pgq._fail_unknown_subscription(subscription);
end
$$;

comment on function pgq._check_subscription_access(text) is
'Raises 42501 when the caller may not consume the topic of a subscription or not publish to its
queue, and MQ011 when the subscription does not exist or one of the two is hidden from the caller.
Admin access to one of the two is enough.';
