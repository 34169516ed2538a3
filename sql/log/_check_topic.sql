create function pgq._check_topic(topic text)
returns void
language plpgsql stable parallel safe
as $$
begin
    if not exists (select from pgq.topic as t where t.topic = _check_topic.topic) then
        perform pgq._fail_unknown_topic(topic);
    end if;
end
$$;

comment on function pgq._check_topic(text) is
'Raises MQ001 when there is no topic of this name, or 22004 when no name was given.
Whoever waited for the row of a topic and does not find it calls this, and looks again: it may have
been dropped and created again meanwhile.';
