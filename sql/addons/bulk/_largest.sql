create function pgq._largest(lengths integer[], keys text[], headers jsonb[])
returns bigint
language sql immutable parallel safe
as $$
select
    coalesce(max(l.length), 0)
    + case
        when pg_column_size(keys) > 8192
            then (select coalesce(max(octet_length(k.key)), 0) from unnest(keys) as k (key))
        else coalesce(pg_column_size(keys), 0)
    end
    + case
        when pg_column_size(headers) > 8192
            then (
                select coalesce(max(pg_column_size(h.header)), 0) from unnest(headers) as h (header)
            )
        else coalesce(pg_column_size(headers), 0)
    end
from unnest(lengths) as l (length)
$$;

comment on function pgq._largest(integer[], text[], jsonb[]) is
'A bound for the largest message of a chunk, in bytes.';
