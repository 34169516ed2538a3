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
    + case
        when headers is null then 0
        when pg_column_compression(headers) is null then pg_column_size(headers)
        else octet_length(headers::text)
    end
$$;

comment on function pgq._message_bytes(jsonb, text, jsonb, bytea) is
'The size of a message for its reader. A compressed payload or header is measured as text: its
stored size says little.';
