create function pgq._check_dead_letters(topic text, max_attempts integer, dead_letter_topic text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if max_attempts is not null then
        perform pgq._check_count('max_attempts', max_attempts, 1, 2147483647);
    end if;
    if dead_letter_topic = topic then
        raise exception 'argument "dead_letter_topic" must be another topic than the group reads'
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_dead_letters(text, integer, text) is
'Raises 22023 for a bad max_attempts, or a dead_letter_topic that is the topic itself.';
