create function pgq._may_use(topic text, queue text, access text)
returns boolean
language plpgsql stable parallel unsafe
as $$
begin
    return not exists (
        select
        from pgq.topic as t
        where t.topic = _may_use.topic collate "C"
            and t.restricted
            and not pgq._may(pgq._granted('topic', t.topic_id, access))
    )
    and not exists (
        select
        from pgq.queue as q
        where q.queue = _may_use.queue collate "C"
            and q.restricted
            and not pgq._may(pgq._granted('queue', q.queue_id, access))
    );
end
$$;

comment on function pgq._may_use(text, text, text) is
'Whether the caller has this access to a topic, a queue, or both. True for a name that is null or
does not exist.';
