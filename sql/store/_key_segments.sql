create function pgq._key_segments(scope_id bigint, idempotency_window interval)
returns pgq._key_segments
language plpgsql volatile parallel unsafe
as $$
declare
    state pgq._key_segments;
    unopened interval;
begin
    -- Repeat after a class was created, or got its first segment.
    loop
        select
            array_agg(distinct c.storage_class_id),
            array_agg(distinct s.segment) filter (where s.segment is not null),
            -- A transaction that read the class while a segment was open may still insert keys
            -- there. A sealed segment is out of its reach once all transactions below its horizon
            -- have ended.
            array_agg(distinct s.segment order by s.segment) filter (
                where w.written
                    and (
                        s.state = 'open'
                        or s.state = 'sealed'
                        and coalesce(s.horizon > pg_snapshot_xmin(pg_current_snapshot()), true)
                    )
            ),
            min(w.span) filter (where w.written and c.segment is null)
        into state.class_ids, state.segments, state.written, unopened
        from (
            select pgq._key_tier(idempotency_window) as span, true as written
            union all
            select f.tier, f.ends_at is null
            from pgq.former_window as f
            where f.scope_id = _key_segments.scope_id
        ) as w
        left join pgq.storage_class as c
            on coalesce(interval_send(c.retention), ''::bytea) = interval_send(w.span)
            and coalesce(c.owner_id, 0) = 0
        left join pgq.segment as s on s.storage_class_id = c.storage_class_id;

        exit when unopened is null;
        perform pgq._storage_class(unopened, null, null);
    end loop;

    return state;
end
$$;

comment on function pgq._key_segments(bigint, interval) is
'Where the keys of a queue or topic with this window stand, and where new ones must be inserted:
into every segment into which a concurrent transaction may insert. The caller has taken its
transaction id before.';
