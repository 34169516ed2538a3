create function pgq._key_tier(idempotency_window interval)
returns interval
language sql immutable parallel safe
as $$
select
    case
        when _key_tier.idempotency_window <= interval '1 hour' then interval '1 hour'
        when _key_tier.idempotency_window <= interval '1 day' then interval '1 day'
        when _key_tier.idempotency_window <= interval '7 days' then interval '7 days'
        when _key_tier.idempotency_window <= interval '31 days' then interval '31 days'
        else interval '366 days'
    end
$$;

comment on function pgq._key_tier(interval) is
'The retention of the storage class for the idempotency keys of a window: one of five, which bounds
the number of segments. Each key still expires by its own window.';
