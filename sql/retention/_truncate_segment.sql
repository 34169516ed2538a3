create function pgq._truncate_segment(segment integer, wait boolean)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    -- Most segments have no keys and no events: leave an empty leaf out.
    tables text := format(
        case
            when pg_relation_size(to_regclass('pgq.job_event_' || segment)) > 0
                then 'pgq.message_%1$s, pgq.job_archive_%1$s, pgq.job_event_%1$s'
            else 'pgq.message_%1$s, pgq.job_archive_%1$s'
        end
        || case
            when pg_relation_size(to_regclass('pgq.idempotency_' || segment)) > 0
                then ', pgq.idempotency_%1$s'
            else ''
        end,
        segment
    );
begin
    -- Only transactions that use this segment block the lock. Wait briefly (lock_timeout) and leave
    -- it to a later call: new readers queue after this request.
    begin
        execute format(
            'lock table %s in access exclusive mode %s', tables,
            case when not wait then 'nowait' end
        );
        execute format('truncate %s', tables);
    exception
        -- object_in_use: this session itself reads the segment, by an open cursor.
        when lock_not_available or object_in_use then
            return next row('segment busy', segment::text, 1)::pgq.cleanup_action;
            return;
    end;

    perform pgq._delete_segment(segment);
    delete from pgq.dropped_range as o where o.segment = _truncate_segment.segment;
    delete from pgq.size_bound as b where b.segment = _truncate_segment.segment;
    delete from pgq.segment as s where s.segment = _truncate_segment.segment;
    update pgq.leaf as l set free = true where l.leaf = segment;

    return next row('segment truncated', segment::text, 1)::pgq.cleanup_action;
end
$$;

comment on function pgq._truncate_segment(integer, boolean) is
'Truncates a segment that is no longer needed, unless a transaction is using it.';
