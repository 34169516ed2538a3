create function pgq._check_idempotency_window(idempotency_window interval)
returns void
language plpgsql immutable parallel safe
as $$
begin
    perform pgq._check_interval('idempotency_window', idempotency_window, false);
    if idempotency_window not between '1 second' and '366 days' then
        raise exception 'argument "idempotency_window" must be from 1 second to 366 days'
            using errcode = '22023', detail = format('Given: %s.', idempotency_window);
    end if;
end
$$;

comment on function pgq._check_idempotency_window(interval) is
'Raises 22004 for a null, 22023 for a window that is not from 1 second to 366 days.';
