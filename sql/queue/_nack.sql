create function pgq._nack(
    job_ids bigint[], lease_token uuid, delay interval, error text, uncounted integer,
    worker text default null, began_at timestamptz default null
)
returns setof bigint
language plpgsql volatile parallel unsafe
as $$
declare
    rest bigint[] := job_ids;
    target_id bigint;
    returned bigint[];
    exhausted bigint[];
    keyed bigint[];
    stamped bigint[];
begin
    if delay is not null then
        perform pgq._check_interval('delay', delay, true);
    end if;
    perform pgq._check_attempt(worker, began_at);

    -- Transaction id first, then the clock: the floor relies on it.
    if pg_current_xact_id() is null then
        return;
    end if;

    while cardinality(rest) > 0 loop
        -- Delete and insert instead of update, see pgq.job. No join with the queue: a plan made for
        -- an empty table might scan all its jobs.
        with gone as (
            delete from pgq.job as j
            where j.job_id = any(rest) and j.lease_token = _nack.lease_token
            returning j.*, j.attempt + (j.last_attempt is null)::integer as counted
        ),

        given_back as (
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
                label,
                last_error,
                unique_key,
                max_attempts,
                ordered_key
            )
            select
                g.job_id,
                g.queue_id,
                g.partition_id,
                g.log_offset,
                g.expires_at,
                pgq._clock() + coalesce(
                    delay,
                    (
                        select
                            pgq._retry_delay(g.counted, q.backoff, q.backoff_max, q.backoff_jitter)
                        from pgq.queue as q
                        where q.queue_id = g.queue_id
                    ),
                    interval '0'
                ),
                g.segment,
                g.counted - uncounted,
                g.priority,
                g.label,
                coalesce(error, g.last_error),
                g.unique_key,
                g.max_attempts,
                g.ordered_key
            from gone as g
            returning
                job_id, queue_id, unique_key, ordered_key,
                attempt >= coalesce(
                    max_attempts,
                    (select q.max_attempts from pgq.queue as q where q.queue_id = job.queue_id)
                ) as exhausted
        )

        -- The jobs of a token are in one queue.
        select
            min(b.queue_id), array_agg(b.job_id), array_agg(b.job_id) filter (where b.exhausted),
            array_agg(b.job_id) filter (where b.unique_key is not null and b.exhausted is not true),
            array_agg(b.job_id) filter (where b.ordered_key is not null and b.exhausted is not true)
        into target_id, returned, exhausted, keyed, stamped
        from given_back as b;

        if uncounted = 0 and returned is not null then
            perform pgq._note_attempts(target_id, returned, 'failed', 0, error, worker, began_at);
        end if;
        perform pgq._announce_queue(target_id);
        if exhausted is not null then
            perform pgq._dead_letter_jobs(exhausted, 0, false, null);
        end if;
        if keyed is not null then
            perform pgq._return_keys(keyed);
        end if;
        if stamped is not null then
            perform pgq._release_keys(stamped);
        end if;

        return query select unnest(returned);

        -- A missing row may have been replaced (delete and insert) while this statement waited for
        -- its lock.
        exit when cardinality(returned) = cardinality(rest);
        rest := array(select unnest(rest) except select unnest(returned));
        exit when cardinality(rest) = 0 or not pgq._still_leased(rest, lease_token);
    end loop;
end
$$;

comment on function pgq._nack(bigint[], uuid, interval, text, integer, text, timestamptz) is
'Gives jobs whose lease token is current back to their queue, or dead-letters them if their attempts
are used up; returns their ids. uncounted: 1 if this attempt does not count, else 0: then
it is noted, with the worker and began_at.';
