create function pgq.alter_group(
    topic text,
    consumer_group text,
    out_of_range text default null
)
returns setof pgq.group_info
language plpgsql
volatile
parallel unsafe
rows 1
security definer
set search_path = pgq, pg_temp
as $$
#variable_conflict use_column
declare
    target_id bigint;
begin
    perform pgq._check_out_of_range(alter_group.out_of_range collate "C");

    loop
        -- Members end first; only then the topic. That is changed, though not what it says, so that
        -- whoever adds partitions by an older snapshot, which shows the old setting, cannot lock
        -- it.
        perform
        from pgq.group_partition as l
        where l.topic = alter_group.topic collate "C"
            and l.consumer_group = alter_group.consumer_group collate "C"
        order by l.partition
        for no key update;

        update pgq.topic as t
        set updated_at = t.updated_at
        where t.topic = alter_group.topic collate "C"
        returning t.topic_id
        into target_id;

        update pgq.consumer_group as g
        set
            out_of_range = coalesce(alter_group.out_of_range, g.out_of_range),
            updated_at = pgq._clock()
        where g.topic_id = target_id
            and g.consumer_group = alter_group.consumer_group collate "C"
        returning g.group_id
        into target_id;

        exit when target_id is not null;
        -- Where this finds it, it was dropped and created again while this call waited.
        perform pgq._check_group(alter_group.topic collate "C", alter_group.consumer_group, null);
    end loop;

    update pgq.group_partition as l
    set out_of_range = coalesce(alter_group.out_of_range, l.out_of_range)
    where l.group_id = target_id;

    return query
    select i.*
    from pgq._group_info(alter_group.topic collate "C", alter_group.consumer_group) as i;
end
$$;

comment on function pgq.alter_group(text, text, text) is
'Changes settings of a consumer group and returns it; what is null stays as it is.
See create_group for the settings. It waits for transactions that consume for the group.
Errors: MQ001 unknown topic, MQ003 unknown group, 22004 a required argument is null, 22023 bad
setting, 40001 above READ COMMITTED when another transaction was first (try again).';
