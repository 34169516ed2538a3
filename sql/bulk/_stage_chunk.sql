create function pgq._stage_chunk(
    target pgq._write_target,
    write_id uuid,
    task integer,
    chunk integer,
    lengths integer[],
    packed_payloads bytea,
    keys text[],
    headers jsonb[],
    partition integer,
    delay interval,
    priority integer,
    labels text[],
    starts integer[],
    packed_bodies bytea
)
returns boolean
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    stays_packed boolean := pgq._stays_packed(
        _stage_chunk.target,
        _stage_chunk.keys,
        _stage_chunk.partition,
        _stage_chunk.starts,
        _stage_chunk.packed_bodies
    );
    documents jsonb[];
    contents bytea[];
    size integer;
begin
    -- The task that makes a bad chunk is told now, and not commit_write.
    if stays_packed then
        size := pgq._check_packed(
            _stage_chunk.packed_bodies,
            _stage_chunk.starts,
            _stage_chunk.lengths,
            _stage_chunk.keys,
            _stage_chunk.headers
        );
    else
        documents := pgq._unpack_payloads(_stage_chunk.packed_payloads, _stage_chunk.lengths);
        contents := pgq._unpack(_stage_chunk.packed_bodies, _stage_chunk.lengths);
        size := pgq._check_batch(
            payloads => documents,
            keys => _stage_chunk.keys,
            headers => _stage_chunk.headers,
            labels => _stage_chunk.labels,
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
        _stage_chunk.write_id,
        _stage_chunk.task,
        _stage_chunk.chunk,
        size,
        documents,
        _stage_chunk.keys,
        _stage_chunk.headers,
        _stage_chunk.partition,
        _stage_chunk.delay,
        _stage_chunk.priority,
        _stage_chunk.labels,
        contents,
        case when stays_packed then _stage_chunk.lengths end,
        case when stays_packed then _stage_chunk.starts end,
        case when stays_packed then _stage_chunk.packed_bodies end
    )
    on conflict do nothing;

    if found then
        return true;
    end if;

    perform pgq._check_staged(
        _stage_chunk.write_id,
        _stage_chunk.task,
        _stage_chunk.chunk,
        documents,
        _stage_chunk.keys,
        _stage_chunk.headers,
        _stage_chunk.partition,
        _stage_chunk.delay,
        _stage_chunk.priority,
        _stage_chunk.labels,
        pgq._unpack(_stage_chunk.packed_bodies, _stage_chunk.lengths)
    );
    return false;
end
$$;

comment on function pgq._stage_chunk(
    pgq._write_target, uuid, integer, integer, integer[], bytea, text[], jsonb[], integer, interval,
    integer, text[], integer[], bytea
) is
'Stages a chunk of an atomic write; false when the same chunk is staged already. Refuses what could
not be published later.';
