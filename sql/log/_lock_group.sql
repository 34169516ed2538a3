create function pgq._lock_group(
    topic text,
    consumer_group text,
    partition integer,
    available_only boolean
)
returns pgq._group_state
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    state pgq._group_state;
    attempts integer := 0;
begin
    loop
        attempts := attempts + 1;
        if _lock_group.partition is not null then
            select
                g.group_id,
                l.partition,
                p.partition_id,
                p.segment,
                p.segment_first_offset,
                g.out_of_range
            into state
            from pgq.topic as t
            inner join pgq.consumer_group as g on g.topic_id = t.topic_id
            inner join pgq.partition as p on p.topic_id = t.topic_id
            inner join pgq.group_partition as l
                on l.group_id = g.group_id
                and l.partition = p.partition
            where t.topic = _lock_group.topic
                and g.consumer_group = _lock_group.consumer_group
                and p.partition = _lock_group.partition
            for no key update of l;
        elsif attempts = 1 then
            -- Members begin at different partitions, and all move on by one every second: so they
            -- seldom meet, and mostly one look is enough. Only a partition that has something to
            -- read is locked. Should another member be faster, its row of the journal has the
            -- number that the caller is about to use.
            select
                g.group_id,
                p.partition,
                p.partition_id,
                p.segment,
                p.segment_first_offset,
                g.out_of_range,
                q.seq,
                q.next_offset,
                q.leased_until,
                q.lease_token,
                q.lease_last_offset
            into state
            from pgq.topic as t
            inner join pgq.consumer_group as g on g.topic_id = t.topic_id
            inner join pgq.partition as p on p.topic_id = t.topic_id
            cross join lateral (
                select j.*
                from pgq.group_position as j
                where j.group_id = g.group_id
                    and j.partition = p.partition
                order by j.seq desc
                limit 1
            ) as q
            where t.topic = _lock_group.topic
                and g.consumer_group = _lock_group.consumer_group
                and p.partition
                = (pg_backend_pid() + date_part('epoch', now())::bigint) % t.partitions
                and (q.leased_until is null or q.leased_until <= pgq._clock());

            continue when state.group_id is null;

            select m.log_offset
            into state.tip
            from pgq.message as m
            where m.segment = state.segment
                and m.partition_id = state.partition_id
                and m.log_offset >= state.segment_first_offset
            order by m.log_offset desc
            limit 1;
            state.tip := coalesce(state.tip, state.segment_first_offset - 1);

            continue when state.tip < state.next_offset;

            perform
            from pgq.group_partition as l
            where l.group_id = state.group_id
                and l.partition = state.partition
            for no key update skip locked;

            continue when not found;
            return state;
        else
            -- Of the partitions that have something to read and that no member holds, the one that
            -- was read longest ago.
            select
                g.group_id,
                l.partition,
                p.partition_id,
                p.segment,
                p.segment_first_offset,
                g.out_of_range
            into state
            from pgq.topic as t
            inner join pgq.consumer_group as g on g.topic_id = t.topic_id
            inner join pgq.partition as p on p.topic_id = t.topic_id
            inner join pgq.group_partition as l
                on l.group_id = g.group_id
                and l.partition = p.partition
            cross join lateral (
                select j.next_offset, j.recorded_at, j.leased_until
                from pgq.group_position as j
                where j.group_id = g.group_id
                    and j.partition = p.partition
                order by j.seq desc
                limit 1
            ) as q
            where t.topic = _lock_group.topic
                and g.consumer_group = _lock_group.consumer_group
                and (q.leased_until is null or q.leased_until <= pgq._clock())
                and (
                    q.next_offset < p.segment_first_offset
                    or exists (
                        select from pgq.message as m
                        where m.segment = p.segment
                            and m.partition_id = p.partition_id
                            and m.log_offset >= q.next_offset
                    )
                )
            order by q.recorded_at
            limit 1
            for no key update of l skip locked;
        end if;

        if state.group_id is null then
            perform pgq._check_group(
                _lock_group.topic, _lock_group.consumer_group, _lock_group.partition
            );
            -- The named partition is there: it was made anew while this call waited for it.
            continue when _lock_group.partition is not null;
            return null;
        end if;

        -- A new statement: its snapshot is younger than the lock. Should the partition have entered
        -- another segment since it was read above, the tip is that of the segment before.
        select
            j.seq,
            j.next_offset,
            j.leased_until,
            j.lease_token,
            j.lease_last_offset,
            coalesce(
                (
                    select m.log_offset
                    from pgq.message as m
                    where m.segment = state.segment
                        and m.partition_id = state.partition_id
                        and m.log_offset >= state.segment_first_offset
                    order by m.log_offset desc
                    limit 1
                ),
                state.segment_first_offset - 1
            )
        into
            state.seq,
            state.next_offset,
            state.leased_until,
            state.lease_token,
            state.lease_last_offset,
            state.tip
        from pgq.group_position as j
        where j.group_id = state.group_id
            and j.partition = state.partition
        order by j.seq desc
        limit 1;

        if not _lock_group.available_only
            or (state.tip >= state.next_offset
                and (state.leased_until is null or state.leased_until <= pgq._clock()))
        then
            return state;
        end if;

        -- Nothing to read here. When any partition will do, another member was faster: look again.
        if _lock_group.partition is not null then
            return null;
        end if;
    end loop;
end
$$;

comment on function pgq._lock_group(text, text, integer, boolean) is
'Locks the position of a group in the named partition, or in one that has messages for it, and says
where it stands; with available_only it returns null when there is nothing to read, or another
member holds it. Raises MQ001, MQ003, MQ007.';
