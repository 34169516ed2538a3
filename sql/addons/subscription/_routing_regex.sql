create function pgq._routing_regex(routing_key text)
returns text
language plpgsql immutable parallel safe
as $$
declare
    word text;
    regex text := '^';
    -- Wildcards since the last word: the number of *, and whether there was a #. Their order has no
    -- meaning, so equal patterns get one expression, without two unbounded repetitions in a row.
    stars integer := 0;
    hash boolean := false;
begin
    if routing_key is null then
        return null;
    end if;
    if octet_length(routing_key) not between 1 and 255 then
        raise exception 'argument "routing_key" must have 1 to 255 bytes' using errcode = '22023';
    end if;

    -- Put a dot before each word, in the key as well: no words and one empty word must differ.
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
'Converts an AMQP routing pattern to a regular expression for routing keys with a dot before each
word; null for null. Refuses an empty pattern and one that is too long (22023).';
