create function pgq._check_access(topic text, queue text, access text)
returns void
language plpgsql stable parallel unsafe
as $$
begin
    -- Fast path: the topic is not restricted.
    if exists (
        select
        from pgq.topic as t
        where t.topic = _check_access.topic collate "C" and not t.restricted and queue is null
    ) then
        return;
    end if;

    -- Report a hidden name as unknown, and on the same line as a missing one: the context of an
    -- error has the line number.
    if topic is not null and not (
        exists (select from pgq.topic as t where t.topic = _check_access.topic collate "C")
        and pgq._may_use(topic, null, 'monitor')
    ) then
        perform pgq._fail_unknown_topic(topic);
    end if;
    if queue is not null and not (
        exists (select from pgq.queue as q where q.queue = _check_access.queue collate "C")
        and pgq._may_use(null, queue, 'monitor')
    ) then
        perform pgq._fail_unknown_queue(queue);
    end if;

    if pgq._may_use(topic, queue, access) then
        return;
    end if;
    raise exception 'permission denied for % "%"',
        case when topic is not null then 'topic' else 'queue' end,
        coalesce(topic, queue)
        using errcode = '42501',
            detail = format('Role "%s" has no %s access.', pgq._caller(), access),
            hint = 'Who has admin access can give it with pgq.grant_access.';
end
$$;

comment on function pgq._check_access(text, text, text) is
'Raises MQ001 or MQ002 when the topic or queue does not exist or is hidden from the caller, and
42501 when the caller can see it but does not have this access. A null name is not checked.';
