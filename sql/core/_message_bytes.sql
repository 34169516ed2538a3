create function pgq._message_bytes(payload jsonb, key text, headers jsonb, body bytea)
returns bigint
language sql stable parallel safe
as $$
select
    case
        when body is not null then octet_length(body)
        when pg_column_compression(payload) is null then pg_column_size(payload)
        else octet_length(payload::text)
    end::bigint
    + coalesce(octet_length(key), 0)
    + coalesce(pg_column_size(headers), 0)
$$;

comment on function pgq._message_bytes(jsonb, text, jsonb, bytea) is
'The size of a message for its reader. A compressed payload is measured as text: its stored size
says little.';
