select
    q.queue_id,
    q.lease,
    q.max_attempts,
    q.paused,
    f.floor_times,
    f.floor_ids,
    f.floor_times[1],
    f.floor_ids[1],
    f.recorded_at
into
    target_id,
    queue_lease,
    max_attempts,
    paused,
    floor_times,
    floor_ids,
    first_time,
    first_id,
    recorded_at
from pgq.queue as q
cross join lateral (
    select g.floor_times, g.floor_ids, g.recorded_at
    from pgq.queue_floor as g
    where g.queue_id = q.queue_id
        and g.label = ''
    order by g.seq desc
    limit 1
) as f
where q.queue = {function}.queue;

if target_id is null then
    perform pgq._fail_unknown_queue({function}.queue);
end if;
if paused or wanted = 0 then
    return;
end if;

token := gen_random_uuid();
moment := pgq._clock();

-- One job of priority 0, as most are: without arrays, which takes less time. visible_at is set
-- by a clock that is read behind the lock: by then this transaction has its id, on which the
-- floor relies.
if wanted = 1 and {function}.label is null then
    with taken as (
        delete from pgq.job as j
        where j.job_id = (
            select k.job_id
            from pgq.job as k
            where k.queue_id = target_id
                and k.priority = 0
                and (k.visible_at, k.job_id) >= (first_time, first_id)
                and k.visible_at <= moment
                and (k.expires_at is null or k.expires_at > moment)
            order by k.visible_at, k.job_id
            limit 1
            for update skip locked
        )
        returning j.*
    )

    insert into pgq.job (
        job_id,
        queue_id,
        partition_id,
        log_offset,
        expires_at,
        visible_at,
        segment,
        attempt,
        priority,
        last_attempt,
        lease_token,
        label,
        last_error
    )
    select
        t.job_id,
        t.queue_id,
        t.partition_id,
        t.log_offset,
        t.expires_at,
        pgq._clock() + coalesce({function}.lease, queue_lease),
        t.segment,
        t.attempt + 1,
        t.priority,
        (t.attempt + 1 >= max_attempts) is true,
        token,
        t.label,
        t.last_error
    from taken as t
    returning job_id, partition_id, log_offset, visible_at, segment, attempt, label
    into number, store_id, store_offset, leased_until, leaf, delivery, job_label;

    if delivery <= max_attempts or max_attempts is null and delivery is not null then
        if recorded_at not between moment - interval '20 milliseconds' and moment then
            perform pgq._raise_floor(target_id, null, moment);
        end if;

        -- for the leaf: leaf
        return query
        select
            {number},
            {token},
            {delivery},
            {leased_until},
            m.published_at,
            0,
            m.key,
            {job_label},
            m.headers,
            m.payload,
            m.body
        from (values (0)) as one (n)
        left join pgq.message_{leaf} as m
            on m.partition_id = {store_id}
            and m.log_offset = {store_offset};
        -- end of the leaf
        return;
    end if;

    if delivery > max_attempts then
        perform pgq._bury(
            array[number], max_attempts, 'the lease of the last attempt ran out'
        );
    end if;
end if;

return query
select c.*
from pgq._claim_jobs(
    target_id,
    wanted,
    coalesce({function}.lease, queue_lease),
    max_attempts,
    {function}.label,
    floor_times,
    floor_ids,
    recorded_at,
    moment,
    token,
    delivery is not null
) as c;
