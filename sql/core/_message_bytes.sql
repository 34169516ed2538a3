create function pgq._message_bytes(payload jsonb, key text, headers jsonb, body bytea)
returns bigint
language sql stable parallel safe
as $$
select
    case
        when body is not null then octet_length(body)
        when pg_column_compression(payload) is null then pg_column_size(payload)
        else pg_column_size(
            payload || case when jsonb_typeof(payload) = 'object' then '{}' else '[]' end::jsonb
        )
    end::bigint
    + coalesce(octet_length(key), 0)
    + case
        when headers is null then 0
        when pg_column_compression(headers) is null then pg_column_size(headers)
        else pg_column_size(headers || '{}')
    end
$$;

comment on function pgq._message_bytes(jsonb, text, jsonb, bytea) is
'The size of a message as it came in: of JSON that of the uncompressed jsonb, which an empty one
appended to it makes. As text JSON may be six times as large, or more where a number has an
exponent.';
