create function pgq._existing_subscription(
    subscription text, topic text, queue text, filter jsonb, routing_key text
)
returns setof pgq.subscription_info
language plpgsql volatile parallel unsafe
as $$
declare
    existing pgq.subscription_info;
begin
    select i.* into existing from pgq._subscription_info(subscription) as i;

    if existing.subscription is null then
        return;
    end if;
    if not pgq._may_use(existing.topic, existing.queue, 'monitor') then
        raise exception 'subscription "%" exists already', subscription using errcode = 'MQ005';
    end if;
    -- An old snapshot may show a subscription that was removed since: then this lock raises 40001.
    if pgq._keeps_snapshot() then
        perform
        from pgq.subscription as s
        where s.subscription = _existing_subscription.subscription
        for key share;
    end if;

    if topic is null then
        perform pgq._fail_unknown_topic(topic);
    end if;
    if queue is null then
        perform pgq._fail_unknown_queue(queue);
    end if;

    perform pgq._check_settings_equal(
        'subscription', subscription,
        jsonb_build_object(
            'topic', topic, 'queue', queue, 'filter', filter::text, 'routing_key', routing_key
        ),
        null, to_jsonb(existing) || jsonb_build_object('filter', existing.filter::text), null
    );
    return next existing;
end
$$;

comment on function pgq._existing_subscription(text, text, text, jsonb, text) is
'The subscription of this name, if there is one; raises MQ005 unless its settings equal those
given.';
