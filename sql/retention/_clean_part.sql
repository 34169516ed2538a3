create function pgq._clean_part(
    part text, objects int8multirange, started pg_snapshot, horizon xid8, oldest_xid xid8,
    now_at timestamptz
)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
begin
    case part
        when 'jobs' then
            return query
            select r.action, pgq._shown_target(r.target), r.amount
            from pgq._clean_jobs(objects, now_at) as r;
        when 'effects' then
            return query select r.* from pgq._clean_effects() as r;
        when 'notes' then
            return query select r.* from pgq._clean_notes() as r;
        when 'subscriptions' then
            perform pgq._clean_subscriptions(objects);
        when 'workers' then
            return query select r.* from pgq._clean_workers(now_at) as r;
        when 'writes' then
            return query select r.* from pgq._clean_writes(objects, now_at) as r;
        when 'dropped messages' then
            return query select r.* from pgq._clean_dropped(
                objects, started, horizon, oldest_xid, now_at
            ) as r;
        when 'truncation' then
            return query select r.* from pgq._truncate_segments(objects, now_at) as r;
        when 'positions' then
            return query
            select r.action, pgq._shown_target(r.target), r.amount
            from pgq._clean_positions(objects) as r;
        when 'windows' then
            perform pgq._clean_windows(started, horizon, oldest_xid, now_at);
        when 'offsets' then
            return query
            select r.action, pgq._shown_target(r.target), r.amount
            from pgq._assign_staged(objects) as r;
        when 'closing' then
            return query
            select r.*
            from pgq._close_segments(objects, started, horizon, oldest_xid, now_at) as r;
        when 'sealing' then
            return query select r.* from pgq._seal_segments(objects, now_at) as r;
    end case;
end
$$;

comment on function pgq._clean_part(text, int8multirange, pg_snapshot, xid8, xid8, timestamptz) is
'Runs a part of cleanup for these objects, see _objects_of, and returns its actions. effects,
notes, workers and windows know no objects: they run whole.';
