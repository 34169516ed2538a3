create function pgq._move_payloads(leaf integer)
returns bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    moved bigint := 0;
    moved_now bigint;
begin
    -- The caller has the leaf for itself. A job that is being finished right now keeps its row
    -- locked, and the lock timeout of the caller ends the attempt. One that died, or was redriven,
    -- while its row was waited for has a new row, which only the next statement sees.
    loop
        with living as materialized (
            select j.job_id, j.queue_id
            from pgq.job as j
            where j.segment = _move_payloads.leaf
            union all
            select d.job_id, d.queue_id
            from pgq.dead_job as d
            where d.segment = _move_payloads.leaf
        ),

        copied as (
            insert into pgq.message (
                partition_id, log_offset, published_at, segment, key, headers, payload, body
            )
            select
                m.partition_id,
                m.log_offset,
                m.published_at,
                q.segment,
                m.key,
                m.headers,
                m.payload,
                m.body
            from living as l
            inner join pgq.queue as q on q.queue_id = l.queue_id
            inner join pgq.message as m
                on m.segment = _move_payloads.leaf
                and m.partition_id = q.partition_id
                and m.log_offset = l.job_id
            on conflict do nothing
        ),

        moved_jobs as (
            update pgq.job as j
            set segment = q.segment
            from pgq.queue as q
            where j.segment = _move_payloads.leaf
                and q.queue_id = j.queue_id
            returning j.job_id
        ),

        moved_dead_jobs as (
            update pgq.dead_job as d
            set segment = q.segment
            from pgq.queue as q
            where d.segment = _move_payloads.leaf
                and q.queue_id = d.queue_id
            returning d.job_id
        )

        select (select count(*) from moved_jobs) + (select count(*) from moved_dead_jobs)
        into moved_now;

        moved := moved + moved_now;

        exit when not exists (
            select
            from pgq.job as j
            inner join pgq.queue as q on q.queue_id = j.queue_id
            where j.segment = _move_payloads.leaf
        ) and not exists (
            select
            from pgq.dead_job as d
            inner join pgq.queue as q on q.queue_id = d.queue_id
            where d.segment = _move_payloads.leaf
        );
    end loop;

    return moved;
end
$$;

comment on function pgq._move_payloads(integer) is
'Copies the payloads of unfinished and dead jobs from a segment to those written to now, and
returns how many.';
