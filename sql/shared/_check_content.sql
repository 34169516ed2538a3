create function pgq._check_content(payload jsonb, headers jsonb, body bytea)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _check_content.payload is null and _check_content.body is null then
        raise exception 'a message needs a payload or a body'
            using errcode = '22004',
                hint = 'Pass payload (jsonb) or body (bytea). JSON null is ''null''::jsonb.';
    end if;
    if _check_content.payload is not null and _check_content.body is not null then
        raise exception 'a message has either a payload or a body, not both'
            using errcode = '22023';
    end if;
    if jsonb_typeof(_check_content.headers) <> 'object' then
        raise exception 'headers must be a JSON object'
            using errcode = '22023',
                detail = format('Given: a JSON %s.', jsonb_typeof(_check_content.headers));
    end if;
end
$$;

comment on function pgq._check_content(jsonb, jsonb, bytea) is
'Refuses a message without content (22004), with two contents, or with odd headers (22023).';
