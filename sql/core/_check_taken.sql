create function pgq._check_taken(topic text, queue text)
returns void
language plpgsql stable parallel unsafe
as $$
begin
    if not pgq._may_use(topic, queue, 'monitor') then
        raise exception '% "%" exists already',
            case when topic is not null then 'topic' else 'queue' end,
            coalesce(topic, queue)
            using errcode = 'MQ005',
                detail = format('Role "%s" has no access to it.', pgq._caller()),
                hint = 'Use another name.';
    end if;
end
$$;

comment on function pgq._check_taken(text, text) is
'Raises MQ005, without showing settings, when a topic or queue of this name is hidden from the
caller.';
