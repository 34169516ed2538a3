create function pgq._write_packed(
    topic text,
    queue text,
    packed bytea,
    lengths integer[],
    keys text[],
    headers jsonb[],
    labels text[],
    partition integer,
    priority integer,
    delay interval,
    is_json boolean
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    bodies bytea[] := pgq._unpack(_write_packed.packed, _write_packed.lengths);
    payloads jsonb[];
begin
    if _write_packed.is_json then
        payloads := array(
            select convert_from(b.body, 'UTF8')::jsonb
            from unnest(bodies) with ordinality as b (body, place)
            order by b.place
        );
        bodies := null;
    end if;

    if _write_packed.topic is not null then
        perform pgq.publish_batch(
            _write_packed.topic,
            payloads,
            bodies,
            _write_packed.keys,
            _write_packed.headers,
            _write_packed.partition
        );
    else
        perform pgq.enqueue_batch(
            _write_packed.queue,
            payloads,
            bodies,
            _write_packed.delay,
            coalesce(_write_packed.priority, 0),
            _write_packed.labels,
            _write_packed.headers,
            _write_packed.keys
        );
    end if;
end
$$;

comment on function pgq._write_packed(
    text, text, bytea, integer[], text[], jsonb[], text[], integer, integer, interval, boolean
) is
'Publishes or enqueues the messages of a chunk.';
