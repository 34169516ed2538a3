create function pgq._check_word(argument text, word text, words text[])
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if array_position(_check_word.words, _check_word.word collate "C") is null then
        raise exception 'argument "%" must be % or %',
            _check_word.argument,
            array_to_string(trim_array(_check_word.words, 1), ', '),
            _check_word.words[cardinality(_check_word.words)]
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_word(text, text, text[]) is
'Refuses what is none of these words (22023).';
