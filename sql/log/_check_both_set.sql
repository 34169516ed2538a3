create function pgq._check_both_set(max_attempts integer, dead_letter_topic_id bigint)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if (max_attempts is null) <> (dead_letter_topic_id is null) then
        raise exception '"max_attempts", "dead_letter_topic": both or neither are needed'
            using errcode = '22023',
                hint = 'A message that had all its attempts goes to that topic.';
    end if;
end
$$;

comment on function pgq._check_both_set(integer, bigint) is
'Raises 22023 for a group with max_attempts but no dead-letter topic, or the reverse.';
