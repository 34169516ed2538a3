create function pgq._clean_workers(now_at timestamptz)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    -- The limit of one call.
    most constant integer := 1000;
    removed bigint;
begin
    with doomed as materialized (
        select w.role, w.worker
        from pgq.worker as w
        where w.last_seen_at < now_at - interval '1 day'
        limit most
        for update skip locked
    )

    delete from pgq.worker as w
    using doomed as d
    where w.role = d.role and w.worker = d.worker;
    get diagnostics removed = row_count;

    if removed > 0 then
        return next row('workers forgotten', 'workers', removed)::pgq.cleanup_action;
    end if;
    if removed = most then
        return next row('more', 'workers', 1)::pgq.cleanup_action;
    end if;
end
$$;

comment on function pgq._clean_workers(timestamptz) is
'The part of cleanup that removes workers without a heartbeat for a day. It skips locked rows.';
