create function pgq._sizes(payloads jsonb[], keys text[], headers jsonb[], bodies bytea[])
returns table (ordinal integer, content bigint, attributes bigint, as_text bigint, bytes bigint)
language sql stable parallel safe
as $$
select
    b.ordinal, coalesce(octet_length(b.body), pg_column_size(b.payload)),
    coalesce(octet_length(b.key), 0)
    + case
        when pg_column_size(b.header) > 2000 then octet_length(b.header::text)
        else coalesce(pg_column_size(b.header), 0)
    end,
    case when pg_column_size(b.payload) > 65536 then octet_length(b.payload::text) end,
    pgq._message_bytes(b.payload, b.key, b.header, b.body)
from (
    select
        generate_series(1, coalesce(cardinality(payloads), cardinality(bodies))) as ordinal,
        unnest(payloads) as payload, unnest(bodies) as body,
        unnest(keys) as key, unnest(headers) as header
) as b
$$;

comment on function pgq._sizes(jsonb[], text[], jsonb[], bytea[]) is
'Measures the messages of a batch: content, key and headers together, the payload as text where that
may be more than 512 MiB (a number takes up to 8192 times as much as text, see 1e131071), and what a
reader gets.';
