create function pgq._check_chunk(
    target pgq._write_target,
    partition integer,
    labels text[],
    priority integer,
    delay interval
)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    if (_check_chunk.target).queue is null then
        if num_nonnulls(_check_chunk.labels, _check_chunk.priority, _check_chunk.delay) > 0 then
            raise exception 'labels, priority and delay are for jobs'
                using errcode = '22023',
                    detail = 'This write goes to a topic.';
        end if;
        if _check_chunk.partition not between 0 and (_check_chunk.target).partitions - 1 then
            perform pgq._fail_unknown_partition(
                (_check_chunk.target).topic,
                _check_chunk.partition,
                (_check_chunk.target).partitions
            );
        end if;
        return;
    end if;

    if _check_chunk.partition is not null then
        raise exception 'argument "partition" is for messages'
            using errcode = '22023',
                detail = 'This write goes to a queue.';
    end if;
    if _check_chunk.priority not between 0 and 9 then
        perform pgq._check_count('priority', _check_chunk.priority, 0, 9);
    end if;
    if _check_chunk.delay is not null then
        perform pgq._due_at(
            (_check_chunk.target).queue,
            pgq._clock(),
            _check_chunk.delay,
            null,
            (_check_chunk.target).job_ttl
        );
    end if;
    if _check_chunk.labels is not null then
        perform pgq._check_label(l.label)
        from unnest(_check_chunk.labels) as l (label)
        where length(l.label) > 255;
    end if;
end
$$;

comment on function pgq._check_chunk(pgq._write_target, integer, text[], integer, interval) is
'Refuses what publish_batch or enqueue_batch would refuse when the chunk is published (22023,
MQ007).';
