create function pgq._close_segments(started pg_snapshot, horizon xid8)
returns setof pgq.cleanup_report
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target pgq.segment;
    place record;
begin
    -- Note from which transaction on nobody can write to a sealed segment any more: the id that
    -- this one took when it had seen the segment sealed. An id from before a restore into another
    -- cluster may lie in the future here: all its contemporaries are gone.
    update pgq.segment as s
    set horizon = _close_segments.horizon
    where s.state = 'sealed'
        and _close_segments.horizon is not null
        and (
            s.horizon is null
            and (
                s.sealed_xid < pg_snapshot_xmin(_close_segments.started)
                or s.sealed_xid >= pg_snapshot_xmax(pg_current_snapshot())
            )
            or s.horizon >= pg_snapshot_xmax(pg_current_snapshot())
        );

    for target in
        select s.*
        from pgq.segment as s
        where s.state = 'sealed'
            and s.horizon <= pg_snapshot_xmin(_close_segments.started)
        order by s.segment
        for update skip locked
    loop
        -- Partitions that had no message since still point here; a publisher may hold one of them.
        for place in
            select
                row(
                    p.partition,
                    p.partition_id,
                    p.segment,
                    p.segment_first_offset,
                    p.segment_entered_at,
                    t.segment,
                    t.notify
                )::pgq._partition_state as state,
                t.topic
            from pgq.partition as p
            inner join pgq.topic as t on t.topic_id = p.topic_id
            where p.segment = target.segment
            order by t.topic_id, p.partition
            for no key update of p skip locked
        loop
            perform pgq._enter_segment(place.topic, place.state);
        end loop;

        -- A new statement, so it sees what was skipped.
        continue when exists (select from pgq.partition as p where p.segment = target.segment);

        update pgq.segment as s
        set
            state = 'closed',
            closed_at = pgq._clock()
        where s.segment = target.segment;

        return next row('segment closed', target.segment::text, 1)::pgq.cleanup_report;
    end loop;
end
$$;

comment on function pgq._close_segments(pg_snapshot, xid8) is
'The part of cleanup that closes sealed segments once nobody can write to them any more.';
