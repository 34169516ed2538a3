create function pgq._check_access(topic text, queue text, access text)
returns void
language plpgsql stable parallel unsafe
as $$
begin
    -- Usually it is open to all.
    if exists (
        select
        from pgq.topic as t
        where t.topic = _check_access.topic collate "C"
            and not t.restricted
            and _check_access.queue is null
    ) then
        return;
    end if;

    -- What may not be known and what is not there fail at the same place: the context of an error
    -- says where.
    if _check_access.topic is not null and not (
        exists (select from pgq.topic as t where t.topic = _check_access.topic collate "C")
        and pgq._may_use(_check_access.topic, null, 'monitor')
    ) then
        perform pgq._fail_unknown_topic(topic);
    end if;
    if _check_access.queue is not null and not (
        exists (select from pgq.queue as q where q.queue = _check_access.queue collate "C")
        and pgq._may_use(null, _check_access.queue, 'monitor')
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
'Raises MQ001 or MQ002 when there is no such topic or queue, or the caller may know nothing of it,
and 42501 when he has other access than this. Where no name is given it says nothing.';
