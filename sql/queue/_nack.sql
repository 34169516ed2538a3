create function pgq._nack(job_ids bigint[], lease_token uuid, delay interval, error text)
returns setof bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    returned bigint[];
    exhausted bigint[];
begin
    if _nack.delay is not null then
        perform pgq._check_interval('delay', _nack.delay, true);
    end if;

    -- The transaction id first, then the clock: the floor relies on it.
    if pg_current_xact_id() is null then
        return;
    end if;

    -- Not joined with the queue: an old plan might walk all its jobs.
    with given_back as (
        update pgq.job as j
        set
            visible_at = pgq._clock() + coalesce(
                _nack.delay,
                (
                    select
                        pgq._retry_delay(
                            j.attempt, q.backoff, q.backoff_max, q.backoff_jitter
                        )
                    from pgq.queue as q
                    where q.queue_id = j.queue_id
                ),
                interval '0'
            ),
            lease_token = null,
            last_error = coalesce(_nack.error, j.last_error)
        where j.job_id = any(_nack.job_ids)
            and j.lease_token = _nack.lease_token
        returning
            j.job_id,
            j.attempt >= (
                select q.max_attempts from pgq.queue as q where q.queue_id = j.queue_id
            ) as exhausted
    )

    select array_agg(g.job_id), array_agg(g.job_id) filter (where g.exhausted)
    into returned, exhausted
    from given_back as g;

    if exhausted is not null then
        perform pgq._bury(exhausted, null, null);
    end if;

    return query
    select unnest(returned);
end
$$;

comment on function pgq._nack(bigint[], uuid, interval, text) is
'Gives jobs whose lease token is current back to their queue, or to the dead ones when their
attempts are used up, and returns their ids.';
