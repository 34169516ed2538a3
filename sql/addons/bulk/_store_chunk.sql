create function pgq._store_chunk(
    stored_id bigint, segment integer, first_offset bigint, publish_time timestamptz,
    ordinals integer[], lengths integer[], packed_payloads bytea, keys text[], headers jsonb[],
    starts integer[], largest bigint, packed_bodies bytea
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    -- Concatenation detoasts the value once, not for every message.
    documents bytea := packed_payloads || ''::bytea;
    contents bytea := packed_bodies || ''::bytea;
    size integer := cardinality(coalesce(ordinals, lengths));
begin
    perform pgq._lock_leaf(segment);
    perform pgq._note_size(segment, stored_id, largest);

    -- Null arrays and contents yield nulls.
    insert into pgq.message (
        partition_id, log_offset, published_at, segment, key, headers, payload, body
    )
    select
        stored_id,
        b.log_offset,
        publish_time,
        segment,
        (keys)[b.ordinal],
        (headers)[b.ordinal],
        convert_from(
            substring(documents from (starts)[b.ordinal] for (lengths)[b.ordinal]), 'UTF8'
        )::jsonb,
        substring(contents from (starts)[b.ordinal] for (lengths)[b.ordinal])
    from (
        select
            generate_series(first_offset, first_offset + size - 1) as log_offset,
            unnest(coalesce(ordinals, array(select generate_series(1, size)))) as ordinal
    ) as b;
end
$$;

comment on function pgq._store_chunk(
    bigint, integer, bigint, timestamptz, integer[], integer[], bytea, text[], jsonb[], integer[],
    bigint, bytea
) is
'Stores messages of a chunk that _check_contents has checked under a stored_partition_id, from an
offset on. ordinals: those (from 1) of the messages to store; null: all. largest: a bound for their
sizes.';
