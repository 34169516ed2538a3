create function pgq._check_staged_delays(write_id uuid, queue_id bigint)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    now_at timestamptz := pgq._clock();
    late record;
begin
    select c.task, c.chunk, c.delay, q.queue, q.job_ttl
    into late
    from pgq.staged_chunk as c
    inner join pgq.queue as q on q.queue_id = _check_staged_delays.queue_id
    where c.write_id = _check_staged_delays.write_id and now_at + c.delay >= now_at + q.job_ttl
    order by c.task, c.chunk
    limit 1;

    if late.queue is not null then
        raise exception 'the jobs of chunk % of task % would expire before they are due',
            late.chunk, late.task
            using errcode = '22023',
                detail = format(
                    'Their delay is %s; the job_ttl of queue "%s" is %s by now.',
                    late.delay, late.queue, late.job_ttl
                ),
                hint = 'Nothing was published. Lengthen job_ttl with pgq.alter_queue and '
                    'call it again, or start the write again with another delay.';
    end if;
end
$$;

comment on function pgq._check_staged_delays(uuid, bigint) is
'Refuses staged jobs whose delay the queue no longer accepts, because its job_ttl became shorter
(22023).';
