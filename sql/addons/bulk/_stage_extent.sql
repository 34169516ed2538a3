create function pgq._stage_extent(
    target pgq._write_target, write_id uuid, task integer, chunk integer, lengths integer[],
    packed_payloads bytea, keys text[], headers jsonb[], partition integer, starts integer[],
    largest bigint, packed_bodies bytea
)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    begins integer[];
    chunk_digest bigint;
    began integer;
    leaf integer;
    partition_count integer;
    part record;
    next_position pgq._extent_position;
begin
    begins := pgq._check_contents(lengths, packed_payloads, keys, headers, starts, packed_bodies);
    -- Hash only sizes and beginnings: only a faulty writer gives two chunks one number. Hashing
    -- everything would cost 5 % of the time that storing it takes.
    chunk_digest := hash_record_extended(
        row(
            cardinality(lengths),
            lengths[:100],
            keys[:100],
            headers[:100],
            length(packed_payloads),
            length(packed_bodies),
            substring(packed_payloads for 10000),
            substring(packed_bodies for 10000),
            partition
        ),
        0
    );

    insert into pgq.staged_chunk (write_id, task, chunk, messages, digest, first_chunk)
    values (
        write_id, task, chunk, cardinality(lengths), chunk_digest,
        coalesce(
            (
                select c.first_chunk
                from pgq.staged_chunk as c
                where c.write_id = _stage_extent.write_id
                    and c.task = _stage_extent.task
                    and c.chunk = _stage_extent.chunk - 1
            ),
            chunk
        )
    )
    on conflict do nothing
    returning staged_chunk.first_chunk
    into began;

    if began is null then
        perform pgq._fail_other_chunk(c.task, c.chunk)
        from pgq.staged_chunk as c
        where c.write_id = _stage_extent.write_id
            and c.task = _stage_extent.task
            and c.chunk = _stage_extent.chunk
            and c.digest is distinct from chunk_digest;
        return false;
    end if;

    -- Read the segment only now: the transaction must have its id first (see _close_segments).
    -- Repeat if the topic changes its storage class meanwhile and the old class goes out of use.
    while leaf is null loop
        select c.segment, t.partitions
        into leaf, partition_count
        from pgq.topic as t
        inner join pgq.storage_class as c on c.storage_class_id = t.storage_class_id
        where t.topic_id = target.topic_id;

        if not found then
            perform pgq._check_target(write_id, target.topic_id, null);
        end if;
    end loop;

    for part in
        select g.key_partition, g.ordinals
        from pgq._split_by_partition(
            keys, coalesce(partition, case when keys is null then task % partition_count end),
            partition_count, task % partition_count
        ) as g
    loop
        next_position := pgq._extent_position(
            write_id, task, began, part.key_partition, leaf,
            case when part.ordinals is not null then partition_count end,
            cardinality(coalesce(part.ordinals, lengths))
        );
        perform pgq._store_chunk(
            next_position.stored_partition_id, leaf, next_position.next_offset, pgq._clock(),
            part.ordinals, lengths, packed_payloads, keys, headers, begins, largest, packed_bodies
        );
    end loop;
    return true;
end
$$;

comment on function pgq._stage_extent(
    pgq._write_target, uuid, integer, integer, integer[], bytea, text[], jsonb[], integer,
    integer[], bigint, bytea
) is
'Stores the messages of a chunk of an atomic write in an extent, which the commit attaches to the
log; false when the same chunk was stored already.';
