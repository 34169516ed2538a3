create function pgq._check_word(argument text, word text, words text[])
returns void
language plpgsql immutable parallel safe
as $$
begin
    if array_position(words, word collate "C") is null then
        raise exception 'argument "%" must be % or %',
            argument, array_to_string(trim_array(words, 1), ', '),
            words[cardinality(words)]
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_word(text, text, text[]) is
'Raises 22023 for a word that is not in the list.';
