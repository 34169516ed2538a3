create function pgq._fail_unknown_subscription(subscription text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if subscription is null then
        raise exception 'argument "subscription" must not be null' using errcode = '22004';
    end if;
    raise exception 'unknown subscription "%"', subscription
        using errcode = 'MQ011',
            hint = 'Create it with pgq.subscribe, or see pgq.list_subscriptions for those that '
                'exist.';
end
$$;

comment on function pgq._fail_unknown_subscription(text) is
'Raises MQ011, or 22004 when the name is null.';
