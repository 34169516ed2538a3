create function pgq._assign(
    topic text, state pgq._partition_state, max_messages bigint, watched boolean default false
)
returns pgq.offset_range
language plpgsql volatile parallel unsafe
as $$
declare
    own_id bigint := (state).partition_id;
    stored_id bigint := (state).stored_partition_id;
    since pgq._staged_since := pgq._staged_since(own_id);
    lowest bigint := since.lowest;
    above bigint := pgq._staged_id(own_id + 1, 0);
    late_xids xid8[] := since.late_xids;
    left_segments integer[];
    newest pgq._newest_message;
    publish_time timestamptz;
    before_first bigint;
    tids tid[];
    moved bigint;
    many boolean := false;
    server_started timestamptz := pg_postmaster_start_time();
    system_identifier bigint := since.system_identifier;
begin
    if pgq._keeps_snapshot() and not watched then
        -- An old snapshot may not show the newest message; the unique index then rejects the
        -- offset.
        begin
            return pgq._assign(topic, state, max_messages, true);
        exception
            when unique_violation then
                raise exception
                    'another transaction has given offsets in topic "%" since this one began',
                    topic
                    using errcode = '40001',
                        hint = 'Try the transaction again, or use READ COMMITTED.';
        end;
    end if;

    select p.left_segments into left_segments from pgq.partition as p where p.partition_id = own_id;

    -- No race: the caller's lock on the partition serializes the assignment of offsets.
    newest := pgq._newest(stored_id, (state).segment, (state).segment_first_offset);
    before_first := coalesce(newest.log_offset, (state).segment_first_offset - 1);
    publish_time := greatest(pgq._clock(), newest.published_at, (state).segment_entered_at);

    if left_segments = '{}' then
        -- for the first 16 leaves: (_assign.state).segment
        select array(
            select s.tid
            from (
                select k.ctid as tid, k.log_offset as staged_number
                from pgq.message_{leaf} as k
                where k.partition_id >= {lowest} and k.partition_id < {above}
                union all
                select f.tid, f.staged_number
                from unnest({late_xids}) as x (xid)
                cross join lateral (
                    select k.ctid as tid, k.log_offset as staged_number
                    from pgq.message_{leaf} as k
                    where k.partition_id = pgq._staged_id({own_id}, x.xid::text::bigint)
                    offset 0
                ) as f
                where pg_visible_in_snapshot(x.xid, (select pg_current_snapshot()))
            ) as s
            order by s.staged_number
            limit {max_messages}
        )
        into tids;
        -- end of the leaf
        moved := cardinality(tids);
        if moved > 0 then
            perform pgq._move_staged(stored_id, (state).segment, tids, before_first, publish_time);
            if stored_id <> own_id then
                perform pgq._copy_size((state).segment, own_id, (state).segment, stored_id);
            end if;
        end if;
    else
        moved := pgq._assign_across(
            state, left_segments, since, before_first, publish_time, max_messages
        );
    end if;

    -- Nothing moved: write no journal row, unless more than 100 of late_xids have ended, which
    -- every later call would probe again.
    if moved = 0 and cardinality(late_xids) > 100 then
        select count(*) > 100
        into many
        from unnest(late_xids) as x (xid)
        where pg_visible_in_snapshot(x.xid, pg_current_snapshot());
    end if;
    if moved > 0 or many then
        if moved = max_messages then
            -- The limit was reached: keep the previous snapshot in the journal, so that the next
            -- call resumes from it.
            select a.next_xid, a.open_xids, a.server_started, a.system_identifier
            into since.next_xid, since.open_xids, server_started, system_identifier
            from pgq.assignment as a
            where a.partition_id = own_id and a.seq = since.seq;
        end if;

        insert into pgq.assignment (
            partition_id, seq, next_xid, open_xids, server_started, system_identifier
        )
        values (
            own_id, since.seq + 1, coalesce(since.next_xid, '0'), coalesce(since.open_xids, '{}'),
            coalesce(server_started, '-infinity'), coalesce(system_identifier, 0)
        )
        on conflict do nothing;

        -- Delete one row per inserted row, by its exact seq, so that no dead rows are scanned.
        delete from pgq.assignment as a where a.partition_id = own_id and a.seq = since.seq - 63;
    end if;

    if moved = 0 then
        return null;
    end if;
    if (state).has_delivery then
        perform pgq._deliver(
            own_id, stored_id, (state).segment, before_first + 1, before_first + moved
        );
    end if;
    return row((state).partition, before_first + 1, before_first + moved) ::pgq.offset_range;
end
$$;

comment on function pgq._assign(text, pgq._partition_state, bigint, boolean) is
'Assigns offsets to the committed staged messages of a partition, whose row the caller has locked:
to the first max_messages, or to all if that is null. Returns null if it found none.
Messages seen by one snapshot are ordered by their publishing calls, so transactions with one key
keep their order unless they overlap. Above READ COMMITTED, the work of another transaction raises
40001. watched: the caller handles unique_violation.';
