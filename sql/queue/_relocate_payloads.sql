create function pgq._relocate_payloads(
    leaf integer, queue_id bigint, partition_id bigint, now_at timestamptz, max_jobs integer
)
returns setof pgq.cleanup_action
language plpgsql volatile parallel unsafe
as $$
declare
    living bigint[];
    dead bigint[];
    carried bigint;
    queues pgq.queue[];
begin
    perform pgq._expand_segment(leaf, queue_id, partition_id, max_jobs);

    living := pgq._jobs_of_segment(leaf, queue_id, partition_id, max_jobs, false);
    return query select r.* from pgq._expire_jobs(living, now_at) as r;

    living := array(
        select j.job_id
        from pgq.job as j
        where j.job_id = any(living)
            and j.segment = leaf
        for update skip locked
    );
    dead := array(
        select d.job_id
        from pgq.dead_job as d
        where d.job_id = any(
            pgq._jobs_of_segment(
                leaf,
                _relocate_payloads.queue_id,
                _relocate_payloads.partition_id,
                max_jobs - cardinality(living),
                true
            )
        )
        for update skip locked
    );

    -- Read the queues once: with a concurrent alter_queue, or a cleanup that moves a queue to
    -- another segment, a second read could differ.
    queues := array(
        select q
        from pgq.queue as q
        where q.queue_id in (
            select j.queue_id
            from pgq.job as j
            where j.job_id = any(living)
            union all
            select d.queue_id
            from pgq.dead_job as d
            where d.job_id = any(dead)
        )
    );
    perform pgq._lock_leaf(h.segment) from unnest(queues) as h;
    perform pgq._copy_size(leaf, null, h.segment, h.partition_id) from unnest(queues) as h;

    -- Copy each payload into the queue's partition with job_id as its offset; a message of a topic
    -- also stays where it is. A job whose message is missing moves without one.
    execute format(
        'with located as (
            select j.job_id, j.queue_id, j.partition_id, j.log_offset
            from pgq.job as j
            where j.job_id = any($1)
            union all
            select d.job_id, d.queue_id, d.partition_id, d.log_offset
            from pgq.dead_job as d
            where d.job_id = any($2)
        ),

        key_partition as materialized (
            select h.queue_id, h.partition_id, h.segment
            from unnest($3) as h
        ),

        copied as (
            insert into pgq.message (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                h.partition_id,
                l.job_id,
                m.published_at,
                h.segment,
                m.key,
                m.headers,
                m.payload,
                m.body
            from located as l
            inner join key_partition as h on h.queue_id = l.queue_id
            cross join lateral (
                select n.*
                from pgq.message_%1$s as n
                where n.partition_id = l.partition_id
                    and n.log_offset = l.log_offset
                limit 1
            ) as m
            on conflict do nothing
        ),

        moved as (
            update pgq.job as j
            set
                segment = h.segment,
                partition_id = h.partition_id,
                log_offset = j.job_id
            from key_partition as h
            where j.job_id = any($1)
                and h.queue_id = j.queue_id
            returning j.job_id
        ),

        moved_dead as (
            update pgq.dead_job as d
            set
                segment = h.segment,
                partition_id = h.partition_id,
                log_offset = d.job_id
            from key_partition as h
            where d.job_id = any($2)
                and h.queue_id = d.queue_id
            returning d.job_id
        )

        select (select count(*) from moved) + (select count(*) from moved_dead)',
        leaf
    )
    into carried
    using living, dead, queues;

    if carried > 0 then
        return next row('payloads moved', leaf::text, carried)::pgq.cleanup_action;
    end if;
end
$$;

comment on function pgq._relocate_payloads(integer, bigint, bigint, timestamptz, integer) is
'Relocates the payloads of unfinished and dead jobs from a segment to the segments written to now,
in batches of max_jobs. Null queue_id: all queues; null partition_id: any partition.
A job locked by another transaction is left for the next call.';
