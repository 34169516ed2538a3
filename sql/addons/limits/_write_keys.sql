create function pgq._write_keys(changes pgq.limited_key[], replaces boolean)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    with changed as materialized (
        select
            c.queue_id, c.limited_key, c.job_ids,
            case when replaces then c.blocked_from else least(c.blocked_from, l.blocked_from)
            end as blocked_from,
            l.seq
        from unnest(changes) as c
        left join lateral (
            select k.seq, k.job_ids, k.blocked_from
            from pgq.limited_key as k
            where k.queue_id = c.queue_id and k.limited_key = c.limited_key
            order by k.seq desc
            limit 1
        ) as l on true
        where l.seq is null
            or l.job_ids <> c.job_ids
            or l.blocked_from is distinct from case
                when replaces then c.blocked_from
                else least(c.blocked_from, l.blocked_from)
            end
    ),

    -- A key with a row has a wake-up record too, so that a row no longer needed is found.
    noted as (
        insert into pgq.key_wakeup (queue_id, look_at, ordered_key, after_id, tries)
        select c.queue_id, pgq._clock() + interval '1 minute', c.limited_key, 0, 0
        from changed as c
        where c.seq is null
        on conflict do nothing
    ),

    gone as (
        delete from pgq.limited_key as k
        using changed as c
        where k.queue_id = c.queue_id and k.limited_key = c.limited_key and k.seq = c.seq
    )

    -- Raises 40001 above READ COMMITTED if another claim was first.
    insert into pgq.limited_key (queue_id, limited_key, seq, job_ids, blocked_from)
    select c.queue_id, c.limited_key, coalesce(c.seq, 0) + 1, c.job_ids, c.blocked_from
    from changed as c
    on conflict do nothing;
end
$$;

comment on function pgq._write_keys(pgq.limited_key[], boolean) is
'Appends to the journal of keys of a queue with max_leased_per_key; the caller holds its claim_lock.
replaces: blocked_from replaces the former value; otherwise the lower of the two is kept.';
