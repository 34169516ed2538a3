create function pgq._has_large(payloads jsonb[], keys text[], headers jsonb[], bodies bytea[])
returns boolean
language sql stable parallel safe
as $$
select
    greatest(pg_column_size(payloads), pg_column_size(bodies), pg_column_size(keys)) > 12288
    or pg_column_size(headers) > 8192
$$;

comment on function pgq._has_large(jsonb[], text[], jsonb[], bytea[]) is
'Whether messages of a batch have to be measured, see _check_size; null: no. It measures whole
arrays, which takes no time. PostgreSQL inlines it.';
