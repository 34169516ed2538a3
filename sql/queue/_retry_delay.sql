create function pgq._retry_delay(
    attempt integer, backoff interval, backoff_max interval, backoff_jitter double precision
)
returns interval
language sql volatile parallel safe
as $$
select make_interval(
    secs => least(
        date_part('epoch', _retry_delay.backoff) * power(2, least(_retry_delay.attempt - 1, 100)),
        date_part('epoch', _retry_delay.backoff_max)
    ) * (1 + random() * _retry_delay.backoff_jitter)
)
$$;

comment on function pgq._retry_delay(integer, interval, interval, double precision) is
'Returns the delay before the retry that follows an attempt: backoff, doubled per attempt, capped at
backoff_max, plus jitter.';
