create function pgq.create_topic(
    topic text,
    partitions integer default null,
    retention interval default null,
    max_bytes bigint default null,
    notify boolean default null,
    idempotency_window interval default null,
    max_message_bytes integer default null,
    no_limit text[] default null,
    deferred boolean default null,
    restricted boolean default null
)
returns setof pgq.topic_info
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    given pgq.topic_info;
    settings pgq.topic_info;
    existing pgq.topic_info;
    class pgq.storage_class;
    made pgq.topic;
    new_id bigint;
begin
    given.topic := topic;
    given.partitions := partitions;
    given.retention := retention;
    given.max_bytes := max_bytes;
    given.notify := notify;
    given.idempotency_window := idempotency_window;
    given.max_message_bytes := max_message_bytes;
    given.deferred := deferred;
    given.restricted := restricted;

    perform pgq._check_name('topic', topic collate "C");
    perform pgq._check_no_limit(
        no_limit collate "C", pgq._liftable(to_jsonb(given), pgq._topic_settings())
    );
    settings := pgq._merge_settings(
        given, pgq._standard_settings(given, pgq._topic_settings()), no_limit
    );
    perform pgq._check_settings(to_jsonb(settings), pgq._topic_settings());

    -- Retry if another transaction creates a topic of this name in between.
    while made.topic_id is null loop
        -- An existing topic is found without a lock.
        select i.* into existing from pgq._topic_info(topic collate "C") as i;

        if existing.topic is not null then
            perform pgq._check_taken(topic collate "C", null);
            -- An old snapshot may show a dropped topic: then the lock raises 40001.
            if pgq._keeps_snapshot() then
                perform
                from pgq.topic as t
                where t.topic = create_topic.topic collate "C"
                for key share;
            end if;

            perform pgq._check_settings_equal(
                'topic', topic collate "C", to_jsonb(given), no_limit, to_jsonb(existing),
                pgq._topic_settings()
            );
            return next existing;
            return;
        end if;

        -- Before the class of storage, as alter_topic does: else the two could deadlock.
        if restricted then
            perform pgq._lock_access(null, null, false);
        end if;
        -- Take the id first: a topic with max_bytes has its own storage class, which refers to it.
        new_id := nextval(pg_get_serial_sequence('pgq.topic', 'topic_id'));
        class := pgq._topic_class(settings, new_id);
        insert into pgq.topic (
            topic_id,
            topic,
            partitions,
            storage_class_id,
            notify,
            created_at,
            updated_at,
            idempotency_window,
            deferred,
            made_by,
            max_message_bytes
        )
        overriding system value
        values (
            new_id,
            topic,
            settings.partitions,
            class.storage_class_id,
            settings.notify,
            pgq._clock(),
            pgq._clock(),
            settings.idempotency_window,
            settings.deferred,
            pgq._maker(),
            settings.max_message_bytes
        )
        on conflict (topic) do nothing
        returning *
        into made;
    end loop;

    perform pgq._add_partitions(made, class, 0, settings.partitions - 1);
    if restricted then
        perform pgq._restrict(topic collate "C", null, true, null, null, false);
    end if;

    return query select i.* from pgq._topic_info(topic collate "C") as i;
end
$$;

comment on function pgq.create_topic(
    text, integer, interval, bigint, boolean, interval, integer, text[], boolean, boolean
) is
'Creates a topic and returns it; an existing one is returned if it has the settings that are given.
partitions (1 to 1024; by default 8): a partition takes one publishing transaction at a time, so
several partitions let publishers work in parallel; use 1 only for a total order. retention: how
long a message is kept at least, and about a third longer at most; by default 7 days; write a unit,
since 3 is 3 seconds. max_bytes:
cleanup removes the oldest messages, a segment at a time, before their retention ends, once all
younger messages have at least this size, so about a third more can be stored; by default no limit.
notify: a publish notifies the channel pgq_topic with the name of the topic (without the name if it
is restricted); by default false, since it makes commits wait for each other. idempotency_window:
how long an idempotency key identifies its first message, from 1 second to 366 days; by default 1
day. max_message_bytes (1024 to 268435456; by default 1048576): a publish with larger content is
refused, see publish. no_limit: names of settings without a limit: retention (messages are never
removed by age), max_bytes. deferred: a publish takes no lock and returns no offset, so that its
transaction may stay open for hours; messages get their offsets, in the order in which their commits
become visible, when a consumer reads or assign_offsets is called; by default false; it cannot be
changed later. restricted: only the caller and roles with access by grant_access may use the topic;
by default false. Topics with the same retention share their storage, so use few different ones.
Settings that are not given are not compared, so that an application can call this at each start.
Errors: MQ005 the topic exists with other settings than those given, 22004 a required argument is
null, 22023 bad name or setting, 40001 above READ COMMITTED when another transaction was first
(try again), 54000 no more deferred topics, or retentions, windows or sizes that are too many: see
set_storage_bounds.';
