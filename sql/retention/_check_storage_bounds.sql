create function pgq._check_storage_bounds(
    retention interval, idempotency_window interval, has_max_bytes boolean, owner_id bigint
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    bounds pgq.storage_bound;
    wanted interval[] := array[pgq._key_tier(idempotency_window)];
    lengths text[];
    more integer;
    going text;
begin
    if not has_max_bytes then
        wanted := wanted || retention;
    end if;
    if pgq._new_lengths(wanted) = 0
        and (
            not has_max_bytes
            or exists (
                select
                from pgq.storage_class as c
                where c.owner_id = _check_storage_bounds.owner_id
            )
        )
    then
        return;
    end if;

    -- Serialize from here on. The next statement has a fresh snapshot, which shows classes and
    -- settings that others have committed meanwhile.
    insert into pgq.storage_bound default values on conflict do nothing;
    select b.* into bounds from pgq.storage_bound as b for update;

    if has_max_bytes
        and (select count(*) from pgq.storage_class as c where c.owner_id is not null)
        >= bounds.max_sized_topics
    then
        raise exception 'there are % topics with max_bytes already', bounds.max_sized_topics
            using errcode = '54000',
                hint = 'Drop one, or lift its max_bytes; its place is free when cleanup has emptied'
                    ' its segments. The owner of pgq raises the bound with pgq.set_storage_bounds.';
    end if;

    more := pgq._new_lengths(wanted);
    lengths := pgq._lengths();
    if more > 0 and cardinality(lengths) + more > bounds.max_retentions then
        select string_agg(
            format('%s goes after %s', coalesce(c.retention::text, 'no limit'), s.goes_at), ', '
        )
        into going
        from pgq.storage_class as c
        cross join lateral (
            select max(coalesce(g.closed_at, pgq._clock()) + c.retention) as goes_at
            from pgq.segment as g
            where g.storage_class_id = c.storage_class_id
        ) as s
        where c.owner_id is null and c.segment is null;

        raise exception 'there are % different retentions and idempotency windows already',
            cardinality(lengths)
            using errcode = '54000',
                detail = format('They are %s.', array_to_string(lengths, ', ')),
                hint = concat_ws(
                    ' ', 'Use one of these, or alter or drop what uses one.',
                    'Out of use: ' || going || '.',
                    'The owner of pgq raises the bound with pgq.set_storage_bounds.'
                );
    end if;
end
$$;

comment on function pgq._check_storage_bounds(interval, interval, boolean, bigint) is
'Raises 54000 for a retention, an idempotency window or a max_bytes that would need more storage
classes than allowed. A publish is never refused.';
