create function pgq._truncate_segment(segment integer, wait boolean)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    -- Most segments have no keys: an empty leaf is left as it is.
    tables text := format(
        case
            when pg_relation_size(to_regclass('pgq.idempotency_' || segment)) > 0
                then 'pgq.message_%1$s, pgq.job_archive_%1$s, pgq.idempotency_%1$s'
            else 'pgq.message_%1$s, pgq.job_archive_%1$s'
        end,
        segment
    );
begin
    -- Only those who read this very segment block this. Wait a moment at most, and try again
    -- next time: whoever reads behind us would wait as well.
    begin
        execute format(
            'lock table %s in access exclusive mode %s', tables,
            case when not wait then 'nowait' end
        );
        execute format('truncate %s', tables);
    exception
        -- the second: this session reads it itself, by an open cursor
        when lock_not_available or object_in_use then
            return next row('segment busy', segment::text, 1)::pgq.cleanup_action;
            return;
    end;

    perform pgq._forget_segment(segment);
    delete from pgq.dropped_range as o where o.segment = _truncate_segment.segment;
    delete from pgq.segment as s where s.segment = _truncate_segment.segment;
    update pgq.leaf as l set free = true where l.leaf = _truncate_segment.segment;

    return next row('segment truncated', segment::text, 1)::pgq.cleanup_action;
end
$$;

comment on function pgq._truncate_segment(integer, boolean) is
'Empties a segment that nobody needs any more, unless somebody is reading it.';
