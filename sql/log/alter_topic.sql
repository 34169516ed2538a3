create function pgq.alter_topic(
    topic text,
    partitions integer default null,
    retention interval default null,
    max_bytes bigint default null,
    notify boolean default null,
    idempotency_window interval default null,
    max_message_bytes integer default null,
    no_limit text[] default null,
    restricted boolean default null,
    end_dependents boolean default false
)
returns setof pgq.topic_info
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
as $$
declare
    given pgq.topic_info;
    before pgq.topic_info;
    settings pgq.topic_info;
    target pgq.topic;
    class pgq.storage_class;
begin
    given.partitions := partitions;
    given.retention := retention;
    given.max_bytes := max_bytes;
    given.notify := notify;
    given.idempotency_window := idempotency_window;
    given.max_message_bytes := max_message_bytes;

    perform pgq._check_access(topic collate "C", null, 'admin');
    if exists (
        select
        from pgq.topic as t
        where t.topic = alter_topic.topic collate "C" and t.restricted <> alter_topic.restricted
    ) then
        perform pgq._restrict(topic collate "C", null, restricted, null, null, end_dependents);
    end if;
    loop
        select t.*
        into target
        from pgq.topic as t
        where t.topic = alter_topic.topic collate "C"
        for no key update;

        exit when target.topic_id is not null;
        perform pgq._check_topic(topic collate "C");
    end loop;
    perform pgq._check_no_limit(
        no_limit collate "C", pgq._liftable(to_jsonb(given), pgq._topic_settings())
    );

    select i.* into before from pgq._topic_info(topic collate "C") as i;

    settings := pgq._merge_settings(given, before, no_limit);
    perform pgq._check_settings(to_jsonb(settings), pgq._topic_settings());
    if before.retention is null and settings.retention is not null then
        perform pgq._check_nothing_kept(
            'topic',
            array(
                select distinct r.stored_partition_id
                from pgq.partition as p
                inner join pgq.segment_range as r on r.partition_id = p.partition_id
                where p.topic_id = target.topic_id
            )
        );
    end if;
    if settings.partitions < target.partitions then
        raise exception 'argument "partitions" must not be lower than before'
            using errcode = '22023',
                detail = format('Topic "%s" has %s.', target.topic, target.partitions);
    end if;

    perform pgq._note_former_window(
        p.partition_id, target.idempotency_window, settings.idempotency_window
    )
    from pgq.partition as p
    where p.topic_id = target.topic_id and p.partition = 0;

    class := pgq._topic_class(settings, target.topic_id);
    update pgq.topic as t
    set
        partitions = settings.partitions, storage_class_id = class.storage_class_id,
        notify = settings.notify, idempotency_window = settings.idempotency_window,
        max_message_bytes = settings.max_message_bytes, updated_at = pgq._clock()
    where t.topic_id = target.topic_id
    returning t.*
    into target;

    perform pgq._settle_partitions(target.topic_id, '{(,)}', 1024);

    if settings.partitions > before.partitions then
        perform pgq._add_partitions(target, class, before.partitions, settings.partitions - 1);
    end if;

    return query select i.* from pgq._topic_info(topic collate "C") as i;
end
$$;

comment on function pgq.alter_topic(
    text, integer, interval, bigint, boolean, interval, integer, text[], boolean, boolean
) is
'Changes settings of a topic and returns it; a null argument leaves the setting as it is.
A partition to which an open transaction publishes gets the new settings at the next cleanup.
partitions can only grow; most keys then move to another partition, so the order within a key holds
before the change and after it, but not across it. A new retention or max_bytes applies to messages
published from now on; with a shorter retention, older messages are removed together with the first
newer ones. A topic that has ever stored messages without a retention cannot get one. A new
idempotency_window applies to keys recorded from now on; earlier keys expire by their old window. A
lower max_message_bytes leaves stored
messages as they are. no_limit removes limits: retention, max_bytes.
restricted: true opens the topic only to roles with access, see grant_access; false opens it to all
roles with EXECUTE, and removes its grants. end_dependents: as in grant_access.
Errors: MQ001 unknown topic, 22004 a required argument is null, 22023 bad setting, 2BP01 what others
have set up needs the access that they lose, 40001 above READ COMMITTED when another transaction was
first (try again), 42501 no admin access, 54000 no more partitions of deferred topics, or
retentions, windows or sizes that are too many: see set_storage_bounds.';
