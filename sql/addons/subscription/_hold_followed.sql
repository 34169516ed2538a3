create function pgq._hold_followed(topic_id bigint, keys text[], headers jsonb[])
returns pgq._ended_job[]
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
    held pgq._ended_job[] := '{}';
begin
    for target in
        select s.filter, s.routing_regex, q.queue_id
        from pgq.subscription as s
        inner join pgq.queue as q on q.queue_id = s.queue_id
        where s.topic_id = _hold_followed.topic_id and q.ordered
        order by q.queue_id
    loop
        held := held || pgq._hold_keys(
            target.queue_id,
            array(
                select left(m.key, 255)
                from unnest(keys, headers) as m (key, headers)
                where m.key is not null
                    and pgq._matches(m.headers, target.filter, target.routing_regex)
            )
        );
    end loop;

    return held;
end
$$;

comment on function pgq._hold_followed(bigint, text[], jsonb[]) is
'Like _hold_keys, for all ordered queues subscribed to a topic: locks the keys of messages with
these keys and headers, which the caller is about to deliver in several steps.';
