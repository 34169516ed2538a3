create function pgq._wanted_write(
    topic text, queue text, producer text, seq bigint, atomic boolean, owner text
)
returns pgq.bulk_write
language plpgsql volatile parallel unsafe
as $$
declare
    wanted pgq.bulk_write;
begin
    if (topic is null) = (queue is null) then
        raise exception '"topic", "queue": exactly one is needed'
            using errcode = case when topic is null then '22004' else '22023' end;
    end if;
    if num_nonnulls(producer, owner) <> num_nonnulls(seq) then
        raise exception '"producer", "seq": both or neither are needed'
            using errcode = '22023',
                hint = 'They name the write; an "owner" takes the place of "producer".';
    end if;
    if length(producer) not between 1 and 255 then
        raise exception 'argument "producer" must have 1 to 255 characters' using errcode = '22023';
    end if;

    perform pgq._check_access(topic, queue, 'publish');

    if topic is not null then
        select t.topic_id
        into wanted.topic_id
        from pgq.topic as t
        where t.topic = _wanted_write.topic;

        if wanted.topic_id is null then
            perform pgq._fail_unknown_topic(topic);
        end if;
    else
        select q.queue_id
        into wanted.queue_id
        from pgq.queue as q
        where q.queue = _wanted_write.queue;

        if wanted.queue_id is null then
            perform pgq._fail_unknown_queue(queue);
        end if;
    end if;

    wanted.producer := producer;
    wanted.seq := seq;
    wanted.atomic := atomic;
    wanted.owner := owner;
    return wanted;
end
$$;

comment on function pgq._wanted_write(text, text, text, bigint, boolean, text) is
'The write, still without an id, that these arguments of begin_write describe. Raises MQ001, MQ002,
22004 and 22023.';
