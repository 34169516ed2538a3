create function pgq._bury_front(
    queue_id bigint,
    max_attempts integer,
    floor_times timestamptz[],
    floor_ids bigint[],
    moment timestamptz,
    max_jobs integer
)
returns bigint
language sql
volatile
parallel unsafe
as $$
select pgq._bury_exhausted(
    array(
        select k.job_id
        from unnest(_bury_front.floor_times, _bury_front.floor_ids) with ordinality
            as f (floor_time, floor_id, place)
        cross join lateral (
            select j.job_id, j.attempt, j.max_attempts
            from pgq.job as j
            where j.queue_id = _bury_front.queue_id
                and j.priority = f.place - 1
                and (j.visible_at, j.job_id) >= (f.floor_time, f.floor_id)
                and j.visible_at <= _bury_front.moment
                and (
                    j.expires_at is null
                    or j.expires_at > _bury_front.moment
                    or j.attempt >= coalesce(j.max_attempts, _bury_front.max_attempts)
                )
            order by j.visible_at, j.job_id
            limit 1000
        ) as k
        where k.attempt >= coalesce(k.max_attempts, _bury_front.max_attempts)
        limit _bury_front.max_jobs
    ),
    _bury_front.max_attempts,
    _bury_front.moment
)
$$;

comment on function pgq._bury_front(
    bigint, integer, timestamptz[], bigint[], timestamptz, integer
) is
'Moves up to so many jobs that had all their attempts out of the way of a claim: of each priority,
those among the 1000 that come first, expired ones aside.';
