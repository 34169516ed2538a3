create function pgq._check_chunk_options(
    target pgq._write_target, partition integer, delay interval, priority integer, labels text[]
)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    if target.queue is null then
        if num_nonnulls(delay, priority, labels) > 0 then
            raise exception 'argument "%" must be null for messages',
                case
                    when priority is not null then 'priority'
                    when delay is not null then 'delay'
                    else 'labels'
                end
                using errcode = '22023', detail = 'This write goes to a topic.';
        end if;
        if partition not between 0 and target.partitions - 1 then
            perform pgq._fail_unknown_partition(target.topic, partition, target.partitions);
        end if;
        return;
    end if;

    if partition is not null then
        raise exception 'argument "partition" must be null for jobs'
            using errcode = '22023', detail = 'This write goes to a queue.';
    end if;
    if priority not between 0 and 9 then
        perform pgq._check_count('priority', priority, 0, 9);
    end if;
    if delay is not null then
        perform pgq._due_at(target.queue, pgq._clock(), delay, null, target.job_ttl);
    end if;
    perform pgq._check_label(l.label) from unnest(labels) as l (label) where length(l.label) > 255;
end
$$;

comment on function pgq._check_chunk_options(
    pgq._write_target, integer, interval, integer, text[]
) is
'Refuses options that publish_batch or enqueue_batch would refuse later, when the chunk is published
(22023, MQ007).';
