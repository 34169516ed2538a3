create function pgq._topic_class(settings pgq.topic_info, topic_id bigint)
returns pgq.storage_class
language plpgsql volatile parallel unsafe
as $$
begin
    perform pgq._check_storage_bounds(
        (settings).retention, (settings).idempotency_window, (settings).max_bytes is not null,
        topic_id
    );
    return pgq._storage_class(
        (settings).retention, (settings).max_bytes,
        case when (settings).max_bytes is not null then topic_id end
    );
end
$$;

comment on function pgq._topic_class(pgq.topic_info, bigint) is
'The storage class of a topic with these settings, which set_storage_bounds must allow. A topic with
max_bytes has its own.';
