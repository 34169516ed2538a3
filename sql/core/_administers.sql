create function pgq._administers(topic text, queue text)
returns boolean
language sql stable parallel unsafe
as $$
select exists (
    select
    from pgq.topic as t
    where t.topic = _administers.topic collate "C"
        and pgq._may(
            pgq._granted('topic', t.topic_id, 'admin')
            || case when not t.restricted then t.made_by end
        )
)
or exists (
    select
    from pgq.queue as q
    where q.queue = _administers.queue collate "C"
        and pgq._may(
            pgq._granted('queue', q.queue_id, 'admin')
            || case when not q.restricted then q.made_by end
        )
)
$$;

comment on function pgq._administers(text, text) is
'Whether the caller administers a topic or a queue: by an admin grant, as the maker while it is not
restricted, or as an owner of pgq.';
