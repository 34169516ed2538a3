create function pgq._is_large(payload jsonb, key text, headers jsonb, body bytea)
returns boolean
language sql stable parallel safe
as $$
select
    greatest(octet_length(key), octet_length(body), pg_column_size(payload)) > 12288
    or pg_column_size(headers) > 8192
    or pg_column_compression(payload) is not null
    or pg_column_compression(headers) is not null
$$;

comment on function pgq._is_large(jsonb, text, jsonb, bytea) is
'Whether a message has to be measured, see _check_size; null: no. PostgreSQL inlines it.';
