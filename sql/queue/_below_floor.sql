create function pgq._below_floor(
    queue_id bigint, floor_times timestamptz[], floor_ids bigint[], now_at timestamptz
)
returns table (ordinal bigint, visible_at timestamptz, job_id bigint)
language sql stable parallel unsafe
as $$
select distinct on (p.ordinal) p.ordinal, j.visible_at, j.job_id
from unnest(_below_floor.floor_times, _below_floor.floor_ids)
    with ordinality as p (floor_time, floor_id, ordinal)
cross join lateral (
    (
        select k.visible_at, k.job_id, k.expires_at
        from pgq.job as k
        where k.queue_id = _below_floor.queue_id
            and k.priority = p.ordinal - 1
            and (k.visible_at, k.job_id) < (p.floor_time, p.floor_id)
        order by k.visible_at, k.job_id
        limit 10000
    )
    union all
    (
        select r.visible_at, r.extent_id, r.expires_at
        from pgq.job_extent as r
        where p.ordinal = 1
            and r.queue_id = _below_floor.queue_id
            and (r.visible_at, r.extent_id) < (p.floor_time, p.floor_id)
        order by r.visible_at, r.extent_id
        limit 10000
    )
) as j
where j.expires_at is null or j.expires_at > _below_floor.now_at
order by p.ordinal, j.visible_at, j.job_id
$$;

comment on function pgq._below_floor(bigint, timestamptz[], bigint[], timestamptz) is
'Returns the first job of each priority that claims miss: it sorts below the floor, the low-water
mark where their index scan starts, and has not expired.
Scans at most 10000 rows per priority, as floors rise above expired jobs and leave them below.';
