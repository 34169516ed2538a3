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
'Raises MQ001 for an unknown topic, 22004 for a null name.
A caller that has waited for the row of a topic and does not find it calls this and looks again: the
topic may have been dropped and recreated meanwhile.';
