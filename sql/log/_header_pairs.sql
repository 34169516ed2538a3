create function pgq._header_pairs(headers jsonb)
returns table (key text, value text)
language sql immutable parallel safe
as $$
select h.key, v.value
from jsonb_each(headers) as h
cross join lateral jsonb_array_elements_text(
    case
        when h.value @@ 'strict $.type() == "array" && $.size() > 1
            && !exists($[*] ? (@.type() != "string" && @.type() != "null"))'
            then h.value
        else jsonb_build_array(h.value)
    end
) as v (value)
$$;

comment on function pgq._header_pairs(jsonb) is
'The headers of a message as Kafka has them: a row for each key and value; a key whose value is an
array of several texts has a row for each.';
