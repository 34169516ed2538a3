create function pgq.subscribe(
    subscription text,
    topic text,
    queue text,
    filter jsonb default null,
    routing_key text default null
)
returns setof pgq.subscription_info
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
as $$
declare
    regex text;
    target pgq.topic;
    target_id bigint;
begin
    perform pgq._check_name('subscription', subscription collate "C");
    regex := pgq._routing_regex(routing_key collate "C");
    -- Compile it now: a broken expression would make every publish to the topic fail.
    begin
        perform '' ~ regex collate "C";
    exception
        when invalid_regular_expression then
            raise exception 'argument "routing_key" must be a pattern of AMQP'
                using errcode = '22023', detail = sqlerrm;
    end;

    -- Return an existing subscription without taking locks.
    return query
    select e.*
    from pgq._existing_subscription(
        subscription collate "C", topic, queue, filter, routing_key
    ) as e;

    if found then
        return;
    end if;

    -- Check the filter only now: an existing subscription may be older than these limits.
    perform pgq._check_filter(filter);

    -- Lock all partitions (_lock_topic): this waits for open publishers. A later publisher reads
    -- the new subscription once it has locked its partition, or cannot lock it under an older
    -- snapshot. The row of the topic is updated below as well, to stop a transaction with an older
    -- snapshot that adds partitions.
    perform pgq._check_access(topic collate "C", null, 'consume');
    perform pgq._check_access(null, queue collate "C", 'publish');
    perform pgq._check_topic(topic collate "C");
    perform pgq._check_queue(queue collate "C");
    target := pgq._lock_topic(topic collate "C");

    loop
        update pgq.queue as q
        set subscribed = true
        where q.queue = subscribe.queue collate "C"
        returning q.queue_id
        into target_id;

        exit when target_id is not null;
        perform pgq._check_queue(queue collate "C");
    end loop;

    -- Check again: access may have changed while this waited; the locks prevent it from now on.
    perform pgq._check_access(topic collate "C", null, 'consume');
    perform pgq._check_access(null, queue collate "C", 'publish');

    if target.deferred then
        -- Assign offsets to messages that were published before: this subscription must not get
        -- them.
        perform from pgq._assign_all(target.topic, null, null);
    end if;

    insert into pgq.subscription (
        subscription, topic_id, queue_id, filter, routing_key, routing_regex, created_at, made_by
    )
    values (
        subscription,
        target.topic_id,
        target_id,
        filter,
        routing_key,
        regex,
        pgq._clock(),
        pgq._maker()
    )
    on conflict do nothing;

    if not found then
        if exists (
            select
            from pgq.subscription as s
            where s.subscription = subscribe.subscription collate "C"
        ) then
            -- Race: another transaction has just created it.
            return query
            select c.*
            from pgq.subscribe(subscription, topic, queue, filter, routing_key) as c;
            return;
        end if;

        raise exception 'queue "%" is subscribed to topic "%" already',
            queue, topic
            using errcode = 'MQ005',
                detail = (
                    select format('By the subscription "%s".', s.subscription)
                    from pgq.subscription as s
                    where s.topic_id = target.topic_id and s.queue_id = target_id
                ),
                hint = 'Remove that one with pgq.unsubscribe first.';
    end if;

    update pgq.partition as p set has_delivery = true where p.topic_id = target.topic_id;

    update pgq.topic as t set updated_at = t.updated_at where t.topic_id = target.topic_id;

    return query select i.* from pgq._subscription_info(subscription collate "C") as i;
end
$$;

comment on function pgq.subscribe(text, text, text, jsonb, text) is
'Creates a subscription and returns it: each message of a topic becomes a job of a queue.
An existing one is returned if its settings equal those given. From now on, every publish of a
matching message to the topic adds a job to the queue, in the same transaction, even when the queue
is full. The job has the content, key, headers and time of the message, which is not copied; its
delay and job_ttl are those of the queue. filter: for each header name, the list of values that it
may have, like {"status": ["processed", "shipped"]}; a message must have all of these headers, each
with one of its values, which are compared as JSON (1 and 1.0 are equal, 1 and "1" are not); {}
matches all messages; at most 100 values for a header, and 8192 bytes as JSON text in all.
routing_key: an AMQP pattern for the header routing_key, 1 to 255 bytes long: words separated by
dots, where * matches one word and # any number of words, including none; a message without that
header, or with one that is not a string, does not match. If both filter and routing_key are given,
both have to match. A queue can be subscribed to a topic once, and to several topics. The call waits
for transactions that publish to the topic: messages published after this call has committed are
delivered, earlier ones are not. Finished jobs are kept no longer than the messages of the topic. In
a deferred topic the job is created when the message gets its offset, in the transaction that
assigns it; a claim of the queue assigns offsets when it finds no job. For a deferred topic this
call assigns offsets to committed messages, and does not wait for publishers: messages that commit
after it are delivered, earlier ones are not.
Errors: MQ001 unknown topic, MQ002 unknown queue, MQ005 the subscription exists with other settings
than those given, or the queue is subscribed to the topic by another name, 22004 a required argument
is null, 22023 bad name, filter or routing_key, 40001 above READ COMMITTED when another transaction
was first (try again).';
