create function pgq._fail_too_large(
    topic text, queue text, most bigint, ordinal integer, messages integer, content bigint,
    attributes bigint, as_text bigint
)
returns void
language plpgsql immutable parallel safe
as $$
begin
    raise exception '% "%" does not take so large a message',
        case when topic is not null then 'topic' else 'queue' end, coalesce(topic, queue)
        using errcode = '22023',
            detail = format(
                'Number %s of %s has %s; nothing was stored.', ordinal, messages,
                case
                    when content > most
                        then format('%s bytes; max_message_bytes is %s', content, most)
                    when attributes > 262144
                        then format('%s bytes of key and headers; the limit is 262144', attributes)
                    else format('%s bytes as text; the limit is 536870912', as_text)
                end
            ),
            hint = 'Store what is large elsewhere and send a reference, or raise max_message_bytes '
                'with pgq.alter_topic or pgq.alter_queue.';
end
$$;

comment on function pgq._fail_too_large(
    text, text, bigint, integer, integer, bigint, bigint, bigint
) is
'Raises 22023 for a message of a batch that is too large.';
