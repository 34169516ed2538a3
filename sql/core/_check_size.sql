create function pgq._check_size(
    topic text, queue text, is_new boolean[], payloads jsonb[], keys text[], headers jsonb[],
    bodies bytea[]
)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    most bigint := coalesce(
        (select t.max_message_bytes from pgq.topic as t where t.topic = _check_size.topic),
        (select q.max_message_bytes from pgq.queue as q where q.queue = _check_size.queue)
    );
    largest bigint;
    refused record;
begin
    select max(greatest(m.bytes, m.attributes))
    into largest
    from pgq._sizes(payloads, keys, headers, bodies) as m;

    if largest > least(most, 65536) then
        select m.*
        into refused
        from pgq._sizes(payloads, keys, headers, bodies) as m
        where (m.content > most or m.attributes > 262144 or m.as_text > 536870912)
            and coalesce(is_new[m.ordinal], true)
            and not exists (select from pgq.acting as a where a.xid = txid_current_if_assigned())
        order by m.ordinal
        limit 1;

        if refused.ordinal is not null then
            raise exception '% "%" does not take so large a message',
                case when topic is not null then 'topic' else 'queue' end, coalesce(topic, queue)
                using errcode = '22023',
                    detail = format(
                        'Number %s of %s has %s; nothing was stored.', refused.ordinal,
                        coalesce(cardinality(payloads), cardinality(bodies)),
                        case
                            when refused.content > most
                                then format(
                                    '%s bytes; max_message_bytes is %s', refused.content, most
                                )
                            when refused.attributes > 262144
                                then format(
                                    '%s bytes of key and headers; the limit is 262144',
                                    refused.attributes
                                )
                            else format('%s bytes as text; the limit is 536870912', refused.as_text)
                        end
                    ),
                    hint = 'Store what is large elsewhere and send a reference, or raise '
                        'max_message_bytes with pgq.alter_topic or pgq.alter_queue.';
        end if;
    end if;
    return largest;
end
$$;

comment on function pgq._check_size(text, text, boolean[], jsonb[], text[], jsonb[], bytea[]) is
'Raises 22023 if a message of a batch is larger than its topic or queue allows, which the caller may
use, else returns the size of the largest one. What _act_for is in effect for is never refused.
is_new: false for those that are not stored, because they repeat a key; null: all are stored.';
