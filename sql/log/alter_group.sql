create function pgq.alter_group(
    topic text,
    consumer_group text,
    out_of_range text default null,
    max_attempts integer default null,
    dead_letter_topic text default null,
    no_limit text[] default null
)
returns setof pgq.group_info
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
as $$
declare
    dead_letter_id bigint;
    target_id bigint;
    altered pgq.consumer_group;
begin
    perform pgq._check_out_of_range(out_of_range collate "C");
    perform pgq._check_dead_letters(topic collate "C", max_attempts, dead_letter_topic collate "C");
    -- An admin of the dead-letter topic may detach it from the group by no_limit, but change
    -- nothing else.
    if num_nonnulls(out_of_range, max_attempts, dead_letter_topic) > 0
        or not exists (
            select
            from pgq._group_info(topic collate "C", consumer_group) as i
            where pgq._administers(i.dead_letter_topic, null)
        )
    then
        perform pgq._check_access(topic collate "C", null, 'consume');
    end if;
    perform pgq._check_access(dead_letter_topic collate "C", null, 'publish');
    perform pgq._check_no_limit(
        no_limit collate "C",
        jsonb_build_object('max_attempts', coalesce(max_attempts::text, dead_letter_topic))
    );

    loop
        -- Lock order: wait for members (group partitions) first, then lock the topic. No-op update:
        -- a transaction with an older snapshot, which would add partitions with the old setting,
        -- then fails with 40001.
        perform
        from pgq.group_partition as l
        where l.topic = alter_group.topic collate "C"
            and l.consumer_group = alter_group.consumer_group collate "C"
        order by l.partition
        for no key update;

        dead_letter_id := pgq._lock_dead_letter_topic(
            topic collate "C", dead_letter_topic collate "C"
        );
        -- Recheck: access may have changed while this call waited for the lock; now it cannot.
        perform pgq._check_access(dead_letter_topic collate "C", null, 'publish');
        update pgq.topic as t
        set updated_at = t.updated_at
        where t.topic = alter_group.topic collate "C"
        returning t.topic_id
        into target_id;

        update pgq.consumer_group as g
        set
            out_of_range = coalesce(alter_group.out_of_range, g.out_of_range),
            updated_at = pgq._clock(),
            max_attempts = case
                when cardinality(no_limit) > 0 then null
                else coalesce(alter_group.max_attempts, g.max_attempts)
            end,
            dead_letter_topic_id = case
                when cardinality(no_limit) > 0 then null
                else coalesce(dead_letter_id, g.dead_letter_topic_id)
            end,
            dead_letters_by = case
                when cardinality(no_limit) > 0 then null
                when dead_letter_id is not null then pgq._maker()
                else g.dead_letters_by
            end
        where g.topic_id = target_id and g.consumer_group = alter_group.consumer_group collate "C"
        returning g.*
        into altered;

        exit when altered.group_id is not null;
        -- If the group exists, it was dropped and recreated while this call waited: retry.
        perform pgq._check_group(topic collate "C", consumer_group, null);
    end loop;

    perform pgq._check_both_set(altered.max_attempts, altered.dead_letter_topic_id);

    update pgq.group_partition as l
    set out_of_range = altered.out_of_range, max_attempts = altered.max_attempts
    where l.group_id = altered.group_id;

    if altered.max_attempts is null then
        -- Reset the attempts now, so that a limit that is set again does not count them.
        insert into pgq.group_position (
            group_id,
            partition,
            seq,
            first_offset,
            next_offset,
            recorded_at,
            leased_until,
            lease_token,
            lease_last_offset
        )
        select
            j.group_id,
            j.partition,
            j.seq + 1,
            j.next_offset,
            j.next_offset,
            pgq._clock(),
            j.leased_until,
            j.lease_token,
            j.lease_last_offset
        from pgq.group_partition as l
        cross join lateral pgq._current_position(l.group_id, l.partition) as j
        where l.group_id = altered.group_id and not (j.attempts is null)
        on conflict do nothing;
    end if;

    return query select i.* from pgq._group_info(topic collate "C", consumer_group) as i;
end
$$;

comment on function pgq.alter_group(text, text, text, integer, text, text[]) is
'Changes settings of a consumer group and returns it; a null argument leaves the setting as it is.
See create_group for the settings. A new max_attempts also applies to messages that have failed
before. Without a limit no attempts are counted; so if there was none before, the delivery that a
member holds now is the first attempt, if it fails. no_limit removes max_attempts and with it the
dead_letter_topic, and resets the attempts; an admin of the dead-letter topic may do this, too. The
call waits for transactions that consume for the group.
Errors: MQ001 unknown topic, MQ003 unknown group, 22004 a required argument is null, 22023 bad
setting, 40001 above READ COMMITTED when another transaction was first (try again).';
