create function pgq._check_topic_settings(
    partitions integer,
    retention interval,
    max_bytes bigint,
    idempotency_window interval
)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    perform pgq._check_count('partitions', _check_topic_settings.partitions, 1, 1024);
    perform pgq._check_idempotency_window(_check_topic_settings.idempotency_window);
    if _check_topic_settings.retention is not null then
        perform pgq._check_interval('retention', _check_topic_settings.retention, false);
    end if;
    if _check_topic_settings.max_bytes is not null then
        perform pgq._check_count(
            'max_bytes', _check_topic_settings.max_bytes, 1, 9223372036854775807
        );
    end if;
end
$$;

comment on function pgq._check_topic_settings(integer, interval, bigint, interval) is
'Refuses settings that a topic cannot have (22004, 22023).';
