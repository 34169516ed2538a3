create function pgq._merge_duplicates(
    queue_id bigint, ids bigint[], holders bigint[], payloads jsonb[], headers jsonb[],
    delay interval, run_at timestamptz, bodies bytea[]
)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- Of several with one key the last one counts: the others would each leave a dead row.
    perform pgq._merge_duplicate(
        _merge_duplicates.queue_id, d.holder, d.payload, d.header, _merge_duplicates.delay,
        _merge_duplicates.run_at, d.body
    )
    from (
        select distinct on (b.holder) b.*
        from (
            select
                generate_series(1, cardinality(ids)) as ordinal, unnest(ids) as job_id,
                unnest(holders) as holder, unnest(payloads) as payload, unnest(headers) as header,
                unnest(bodies) as body
        ) as b
        where b.holder <> b.job_id
        order by b.holder, b.ordinal desc
    ) as d
    where (
        select q.on_duplicate
        from pgq.queue as q
        where q.queue_id = _merge_duplicates.queue_id
    ) <> 'keep';
end
$$;

comment on function pgq._merge_duplicates(
    bigint, bigint[], bigint[], jsonb[], jsonb[], interval, timestamptz, bytea[]
) is
'Does the same as _merge_duplicate for the duplicates of a batch, whose other jobs are stored.';
