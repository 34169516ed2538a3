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
    existing pgq.subscription_info;
    regex text;
    target pgq.topic;
    target_id bigint;
begin
    perform pgq._check_name('subscription', subscription collate "C");
    regex := pgq._routing_regex(routing_key collate "C");
    -- One that cannot be compiled would make each publish to the topic fail.
    begin
        perform '' ~ regex;
    exception
        when invalid_regular_expression then
            raise exception 'argument "routing_key" must be a pattern of AMQP'
                using errcode = '22023', detail = sqlerrm;
    end;

    -- One that is there is found without a lock.
    select i.* into existing from pgq._subscription_info(subscribe.subscription collate "C") as i;

    if existing.subscription is not null then
        if not pgq._may_use(existing.topic, existing.queue, 'monitor') then
            raise exception 'subscription "%" exists already', subscription using errcode = 'MQ005';
        end if;
        -- An old snapshot may show one that is gone since; it cannot be locked.
        if pgq._keeps_snapshot() then
            perform
            from pgq.subscription as s
            where s.subscription = subscribe.subscription collate "C"
            for key share;
        end if;

        if topic is null then
            perform pgq._fail_unknown_topic(topic);
        end if;
        if queue is null then
            perform pgq._fail_unknown_queue(queue);
        end if;

        perform pgq._check_settings_equal(
            'subscription', subscription,
            jsonb_build_object(
                'topic', topic, 'queue', queue, 'filter', filter::text, 'routing_key', routing_key
            ),
            null, to_jsonb(existing) || jsonb_build_object('filter', existing.filter::text)
        );
        return next existing;
        return;
    end if;

    -- Behind the others: those from before these limits are found by their settings.
    perform pgq._check_filter(filter);

    -- Whoever publishes ends first: who comes then, reads behind the lock of its partition what
    -- this has written, or, with an older snapshot, cannot lock it. The row of the topic is changed
    -- too, for whoever adds partitions by such a one.
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

    -- Access may have changed while this waited; now it cannot.
    perform pgq._check_access(topic collate "C", null, 'consume');
    perform pgq._check_access(null, queue collate "C", 'publish');

    if target.deferred then
        -- What was published before is for others, though it may have no offsets yet.
        perform from pgq._assign_all(target.topic, null, null);
    end if;

    insert into pgq.subscription (
        subscription, topic_id, queue_id, filter, routing_key, routing_regex, created_at, made_by
    )
    values (
        subscribe.subscription,
        target.topic_id,
        target_id,
        subscribe.filter,
        subscribe.routing_key,
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
            -- Another transaction has made it in the meantime.
            return query
            select c.*
            from pgq.subscribe(
                subscribe.subscription, subscribe.topic, subscribe.queue, subscribe.filter,
                subscribe.routing_key
            ) as c;
            return;
        end if;

        raise exception 'queue "%" is subscribed to topic "%" already',
            subscribe.queue, subscribe.topic
            using errcode = 'MQ005',
                detail = (
                    select format('By the subscription "%s".', s.subscription)
                    from pgq.subscription as s
                    where s.topic_id = target.topic_id and s.queue_id = target_id
                ),
                hint = 'Remove that one with pgq.unsubscribe first.';
    end if;

    update pgq.partition as p set followed = true where p.topic_id = target.topic_id;

    update pgq.topic as t set updated_at = t.updated_at where t.topic_id = target.topic_id;

    return query select i.* from pgq._subscription_info(subscribe.subscription collate "C") as i;
end
$$;

comment on function pgq.subscribe(text, text, text, jsonb, text) is
'Creates a subscription and returns it: each message of a topic becomes a job of a queue.
An existing one is returned if the settings that are given agree. From now on, whatever publishes a
message to the topic adds a job to the queue, in the same transaction, also when the queue is full.
The job has the content, key, headers and time of the message, which is not copied; its delay and
job_ttl are those of the queue. filter: for names of headers the values that each may have, like
{"status": ["processed", "shipped"]}; a message must have all of these headers, each with one of its
values, which are compared as JSON (1 and 1.0 are equal, 1 and "1" are not); {} takes all
messages; at most 100 values for a header, and 8192 bytes as JSON text in all.
routing_key: a pattern of AMQP for the header routing_key, 1 to 255 bytes long: words with dots
between them, where * stands for one word and # for any number of them, none included; a message
without that header, or with one that is no string, does not match. With both, both have to match. A
queue can be subscribed to a topic once, and to several topics. It waits for transactions that
publish to the topic: then each message that is published after this call has committed is
delivered, and none that was before. Jobs that were finished are kept no longer than the messages of
the topic. In a deferred topic the job is made when the message gets its offset, by whoever gives
it; a claim of the queue does that when it finds no job. This call gives offsets to what has
committed, and waits for no publisher: what commits after it is delivered, what was there before is
not.
Errors: MQ001 unknown topic, MQ002 unknown queue, MQ005 the subscription exists with other settings
than those given, or the queue is subscribed to the topic by another name, 22004 a required argument
is null, 22023 bad name, filter or routing_key, 40001 above READ COMMITTED when another transaction
was first (try again).';
