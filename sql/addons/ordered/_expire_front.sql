create function pgq._expire_front(
    queue_id bigint, floor_times timestamptz[], floor_ids bigint[], now_at timestamptz
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    expired_ids bigint[];
begin
    expired_ids := array(
        select k.job_id
        from unnest(floor_times, floor_ids) with ordinality as f (floor_time, floor_id, ordinal)
        cross join lateral (
            select j.job_id, j.expires_at
            from pgq.job as j
            where j.queue_id = _expire_front.queue_id
                and j.priority = f.ordinal - 1
                and (j.visible_at, j.job_id) >= (f.floor_time, f.floor_id)
                and j.visible_at <= now_at
            order by j.visible_at, j.job_id
            limit 100
        ) as k
        where k.expires_at <= now_at
    );

    if cardinality(expired_ids) > 0 then
        perform from pgq._expire_jobs(expired_ids, now_at);
    end if;
end
$$;

comment on function pgq._expire_front(bigint, timestamptz[], bigint[], timestamptz) is
'Removes expired jobs from the front of a queue with keys that are ordered or limited
(max_leased_per_key): they would block the next jobs of their keys.';
