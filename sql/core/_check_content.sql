create function pgq._check_content(payload jsonb, headers jsonb, body bytea)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if (payload is null) = (body is null) then
        raise exception '"payload", "body": exactly one is needed'
            using errcode = case when payload is null then '22004' else '22023' end,
                hint = 'Pass payload (jsonb) or body (bytea). JSON null is ''null''::jsonb.';
    end if;
    if jsonb_typeof(headers) <> 'object' then
        raise exception 'argument "headers" must be a JSON object'
            using errcode = '22023', detail = format('Given: a JSON %s.', jsonb_typeof(headers));
    end if;
end
$$;

comment on function pgq._check_content(jsonb, jsonb, bytea) is
'Raises 22004 for a message or job without content, 22023 for two contents or for headers that are
not a JSON object.';
