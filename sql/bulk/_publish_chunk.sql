create function pgq._publish_chunk(
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
begin
    -- The digest is of all that a writer says about the messages: starts follow from lengths.
    if not pgq._note_chunk(
        _publish_chunk.write_id,
        _publish_chunk.target,
        _publish_chunk.task,
        _publish_chunk.chunk,
        cardinality(_publish_chunk.lengths),
        hash_record_extended(
            row(
                _publish_chunk.lengths,
                _publish_chunk.packed_payloads,
                _publish_chunk.keys,
                _publish_chunk.headers,
                _publish_chunk.partition,
                _publish_chunk.delay,
                coalesce(_publish_chunk.priority, 0),
                _publish_chunk.labels,
                _publish_chunk.packed_bodies
            ),
            0
        )
    ) then
        return false;
    end if;

    if (_publish_chunk.target).topic is not null
        and current_setting('transaction_isolation') not in ('repeatable read', 'serializable')
    then
        perform pgq._publish_contents(
            (_publish_chunk.target).topic,
            _publish_chunk.lengths,
            _publish_chunk.packed_payloads,
            _publish_chunk.keys,
            _publish_chunk.headers,
            _publish_chunk.partition,
            _publish_chunk.task,
            pgq._check_contents(
                _publish_chunk.lengths,
                _publish_chunk.packed_payloads,
                _publish_chunk.keys,
                _publish_chunk.headers,
                _publish_chunk.starts,
                _publish_chunk.packed_bodies
            ),
            _publish_chunk.packed_bodies
        );
    else
        -- They are not needed here, but what is wrong is wrong everywhere.
        if _publish_chunk.starts is not null then
            perform pgq._check_contents(
                _publish_chunk.lengths,
                _publish_chunk.packed_payloads,
                _publish_chunk.keys,
                _publish_chunk.headers,
                _publish_chunk.starts,
                _publish_chunk.packed_bodies
            );
        end if;
        perform pgq._publish_messages(
            (_publish_chunk.target).topic,
            (_publish_chunk.target).queue,
            pgq._unpack_payloads(_publish_chunk.packed_payloads, _publish_chunk.lengths),
            _publish_chunk.keys,
            _publish_chunk.headers,
            _publish_chunk.partition,
            _publish_chunk.delay,
            _publish_chunk.priority,
            _publish_chunk.labels,
            pgq._unpack(_publish_chunk.packed_bodies, _publish_chunk.lengths)
        );
    end if;

    perform pgq._check_target(
        _publish_chunk.write_id,
        (_publish_chunk.target).topic_id,
        (_publish_chunk.target).queue_id
    );
    return true;
end
$$;

comment on function pgq._publish_chunk(
    pgq._write_target, uuid, integer, integer, integer[], bytea, text[], jsonb[], integer, interval,
    integer, text[], integer[], bytea
) is
'Publishes a chunk of a write that is not atomic; false when it was published before.';
