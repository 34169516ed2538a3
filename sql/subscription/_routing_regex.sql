create function pgq._routing_regex(routing_key text)
returns text
language plpgsql immutable parallel safe
as $$
declare
    word text;
    regex text := '^';
    -- How many stars, and whether any #, since the last word: in whatever order they stand, they
    -- mean the same. So there is one expression for all, in which nothing is repeated twice.
    stars integer := 0;
    hash boolean := false;
begin
    if routing_key is null then
        return null;
    end if;
    if octet_length(routing_key) not between 1 and 255 then
        raise exception 'argument "routing_key" must have 1 to 255 bytes' using errcode = '22023';
    end if;

    -- Each word has a dot in front, in the key as well, so that no word and an empty one differ.
    foreach word in array string_to_array(routing_key, '.') || null::text loop
        case word
            when '*' then
                stars := stars + 1;
            when '#' then
                hash := true;
            else
                regex := regex
                    || repeat(E'\\.[^.]*', stars)
                    || case when hash then E'(?:\\.[^.]*)*' else '' end;
                stars := 0;
                hash := false;
                if word is not null then
                    regex := regex
                        || E'\\.'
                        || regexp_replace(word, E'([][\\\\.+*?^$(){}|])', E'\\\\\\1', 'g');
                end if;
        end case;
    end loop;

    return regex || '$';
end
$$;

comment on function pgq._routing_regex(text) is
'A routing pattern of AMQP as a regular expression for a routing key with a dot in front of each
word; null for null. Refuses an empty one and one that is too long (22023).';
