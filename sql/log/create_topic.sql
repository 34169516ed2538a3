create function pgq.create_topic(
    topic text,
    partitions integer default 8,
    retention interval default '7 days',
    max_bytes bigint default null,
    notify boolean default false
)
returns pgq.topic_info
language plpgsql
volatile
parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    made pgq.topic;
    class pgq.storage_class;
begin
    perform pgq._check_name('topic', create_topic.topic);
    perform pgq._check_topic_settings(
        create_topic.partitions, create_topic.retention, create_topic.max_bytes
    );
    if create_topic.notify is null then
        raise exception 'argument "notify" must not be null'
            using errcode = '22004';
    end if;

    -- One that is there is found without a lock.
    if exists (select from pgq.topic as t where t.topic = create_topic.topic) then
        -- An old snapshot may show one that was dropped since; it cannot be locked.
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            perform
            from pgq.topic as t
            where t.topic = create_topic.topic
            for key share;
        end if;

        return pgq._topic_info(create_topic.topic);
    end if;

    class := pgq._storage_class(create_topic.retention, null, null);
    insert into pgq.topic (topic, partitions, storage_class_id, notify, created_at, updated_at)
    values (
        create_topic.topic,
        create_topic.partitions,
        class.storage_class_id,
        create_topic.notify,
        pgq._clock(),
        pgq._clock()
    )
    on conflict (topic) do nothing
    returning *
    into made;

    if made.topic_id is not null then
        if create_topic.max_bytes is not null then
            class := pgq._storage_class(
                create_topic.retention, create_topic.max_bytes, made.topic_id
            );
            update pgq.topic as t
            set storage_class_id = class.storage_class_id
            where t.topic_id = made.topic_id;
        end if;
        perform pgq._add_partitions(made, class, 0, create_topic.partitions - 1);
    end if;

    return pgq._topic_info(create_topic.topic);
end
$$;

comment on function pgq.create_topic(text, integer, interval, bigint, boolean) is
'Creates a topic and returns it; a topic of that name that exists already is returned as it is.
partitions (1 to 1024): one takes one publishing transaction at a time, so several let publishers
work side by side; use 1 only for one total order. retention: how long a message is kept at least,
and at most a third longer; null: for ever. max_bytes: when given, the oldest messages go as soon
as more than that is stored, of which at least this much is kept. notify: a publish notifies the
channel pgq_topic with the topic''s name; it makes commits wait for each other, so leave it off
where many publish. Topics with one retention share their storage; use few different ones.
Errors: 22023 bad name or setting, 22004 null, 40001 under REPEATABLE READ or SERIALIZABLE when
another transaction was first (try again).';
