create function pgq._stage_chunk(
    target pgq._write_target, write_id uuid, task integer, chunk integer, lengths integer[],
    packed_payloads bytea, keys text[], headers jsonb[], partition integer, delay interval,
    priority integer, labels text[], starts integer[], packed_bodies bytea
)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    -- Message bodies stay packed until the commit stores them.
    stays_packed boolean := target.topic is not null
    and packed_bodies is not null
    and not pgq._keeps_snapshot();
    begins integer[];
    documents jsonb[];
    contents bytea[];
    size integer;
begin
    -- Check now: the task that made a bad chunk must get the error, not commit_write.
    if stays_packed then
        begins := pgq._check_contents(lengths, null, keys, headers, starts, packed_bodies);
        size := cardinality(begins);
    else
        -- starts is not used on this path, but refuse bad values all the same.
        if starts is not null then
            perform pgq._check_contents(
                lengths, packed_payloads, keys, headers, starts, packed_bodies
            );
        end if;
        documents := pgq._unpack_payloads(packed_payloads, lengths);
        contents := pgq._unpack(packed_bodies, lengths);
        size := pgq._check_batch(
            payloads => documents, keys => keys, headers => headers, labels => labels,
            bodies => contents
        );
    end if;

    insert into pgq.staged_chunk (
        write_id,
        task,
        chunk,
        messages,
        payloads,
        keys,
        headers,
        partition,
        delay,
        priority,
        labels,
        bodies,
        lengths,
        starts,
        packed_bodies
    )
    values (
        write_id,
        task,
        chunk,
        size,
        documents,
        keys,
        headers,
        partition,
        delay,
        priority,
        labels,
        contents,
        case when stays_packed then lengths end,
        begins,
        case when stays_packed then packed_bodies end
    )
    on conflict do nothing;

    if found then
        return true;
    end if;

    perform pgq._fail_other_chunk(c.task, c.chunk)
    from pgq.staged_chunk as c
    where c.write_id = _stage_chunk.write_id
        and c.task = _stage_chunk.task
        and c.chunk = _stage_chunk.chunk
        and (
            c.payloads, c.keys, c.headers, c.partition, c.delay, coalesce(c.priority, 0), c.labels,
            coalesce(c.bodies, pgq._unpack(c.packed_bodies, c.lengths))
        ) is distinct from (
            documents, _stage_chunk.keys, _stage_chunk.headers, _stage_chunk.partition,
            _stage_chunk.delay, coalesce(_stage_chunk.priority, 0), _stage_chunk.labels,
            pgq._unpack(_stage_chunk.packed_bodies, _stage_chunk.lengths)
        );
    return false;
end
$$;

comment on function pgq._stage_chunk(
    pgq._write_target, uuid, integer, integer, integer[], bytea, text[], jsonb[], integer, interval,
    integer, text[], integer[], bytea
) is
'Stages a chunk of an atomic write in staged_chunk; false when the same chunk is staged already.
Refuses a chunk that could not be published later.';
