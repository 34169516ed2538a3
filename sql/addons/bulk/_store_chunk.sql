create function pgq._store_chunk(
    stored_id bigint, segment integer, first_offset bigint, stamp timestamptz, places integer[],
    lengths integer[], packed_payloads bytea, keys text[], headers jsonb[], starts integer[],
    packed_bodies bytea
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    -- Concatenation detoasts the value once, not for every message.
    documents bytea := packed_payloads || ''::bytea;
    contents bytea := packed_bodies || ''::bytea;
    size integer := cardinality(coalesce(places, lengths));
    numbers integer[];
begin
    perform pgq._lock_leaf(segment);
    if num_nonnulls(places, keys, headers) = 0 then
        if documents is null then
            insert into pgq.message (partition_id, log_offset, published_at, segment, body)
            select
                stored_id, b.log_offset, stamp, segment,
                substring(contents from b.start for b.length)
            from (
                select
                    generate_series(first_offset, first_offset + size - 1) as log_offset,
                    unnest(starts) as start, unnest(lengths) as length
            ) as b;
            return;
        end if;

        insert into pgq.message (partition_id, log_offset, published_at, segment, payload)
        select
            stored_id, b.log_offset, stamp, segment,
            convert_from(substring(documents from b.start for b.length), 'UTF8')::jsonb
        from (
            select
                generate_series(first_offset, first_offset + size - 1) as log_offset,
                unnest(starts) as start, unnest(lengths) as length
        ) as b;
        return;
    end if;

    numbers := coalesce(places, array(select generate_series(1, size)));
    if documents is null then
        insert into pgq.message (
            partition_id, log_offset, published_at, segment, key, headers, body
        )
        select
            stored_id,
            b.log_offset,
            stamp,
            segment,
            (keys)[b.place],
            (headers)[b.place],
            substring(contents from (starts)[b.place] for (lengths)[b.place])
        from (
            select
                generate_series(first_offset, first_offset + size - 1) as log_offset,
                unnest(numbers) as place
        ) as b;
        return;
    end if;

    insert into pgq.message (partition_id, log_offset, published_at, segment, key, headers, payload)
    select
        stored_id,
        b.log_offset,
        stamp,
        segment,
        (keys)[b.place],
        (headers)[b.place],
        convert_from(
            substring(documents from (starts)[b.place] for (lengths)[b.place]), 'UTF8'
        )::jsonb
    from (
        select
            generate_series(first_offset, first_offset + size - 1) as log_offset,
            unnest(numbers) as place
    ) as b;
end
$$;

comment on function pgq._store_chunk(
    bigint, integer, bigint, timestamptz, integer[], integer[], bytea, text[], jsonb[], integer[],
    bytea
) is
'Stores messages of a chunk that _check_contents has checked under a stored_partition_id, from an
offset on. places: the ordinals (from 1) of the messages to store; null: all.';
