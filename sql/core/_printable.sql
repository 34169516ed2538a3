create function pgq._printable(value text)
returns text
language plpgsql stable parallel unsafe
as $$
begin
    perform convert_to(value, current_setting('client_encoding'));
    return value;
exception
    when others then
        return regexp_replace(value collate "C", '[^ -~[:space:]]', '?', 'g');
end
$$;

comment on function pgq._printable(text) is
'Returns a text that the client can read: with ? for what is not ASCII, if its encoding lacks any of
the characters.';
