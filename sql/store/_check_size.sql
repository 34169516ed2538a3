create function pgq._check_size(
    topic text, queue text, payloads jsonb[], bodies bytea[], keys text[], headers jsonb[]
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
    is_refused boolean;
begin
    select
        max(m.bytes),
        max(m.content) > most or max(m.attributes) > 262144 or max(m.as_text) > 536870912
    into largest, is_refused
    from pgq._sizes(payloads, bodies, keys, headers) as m;

    -- What pgq's own schedules and groups send is never refused.
    if is_refused
        and not exists (select from pgq.acting as a where a.xid = txid_current_if_assigned())
    then
        perform pgq._fail_too_large(
            topic, queue, most, m.ordinal, coalesce(cardinality(payloads), cardinality(bodies)),
            m.content, m.attributes, m.as_text
        )
        from pgq._sizes(payloads, bodies, keys, headers) as m
        where m.content > most or m.attributes > 262144 or m.as_text > 536870912
        order by m.ordinal;
    end if;
    return largest;
end
$$;

comment on function pgq._check_size(text, text, jsonb[], bytea[], text[], jsonb[]) is
'Raises 22023 if a message of a batch is larger than its topic or queue allows, else returns the size
of the largest one. The caller may use the topic or queue.';
