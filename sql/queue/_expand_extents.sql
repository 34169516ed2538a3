create function pgq._expand_extents(
    queue_id bigint, max_jobs integer, now_at timestamptz, most_attempts integer,
    floor_time timestamptz, floor_id bigint
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    extent pgq.job_extent;
    wanted bigint := max_jobs;
begin
    select r.*
    into extent
    from pgq.job_extent as r
    where r.queue_id = _expand_extents.queue_id
        and r.visible_at >= floor_time
        and r.visible_at <= now_at
        and (r.expires_at is null or r.expires_at > now_at)
    order by r.visible_at, r.extent_id
    limit 1;

    if extent.extent_id is null then
        return;
    end if;

    -- Jobs due earlier come first. Lock them, as jobs locked by another claim must not count; the
    -- calling claim then takes them.
    select wanted - count(*)
    into wanted
    from (
        select
        from pgq.job as k
        where k.queue_id = _expand_extents.queue_id
            and k.priority = 0
            and (k.visible_at, k.job_id) >= (floor_time, floor_id)
            and k.visible_at <= extent.visible_at
            and (k.expires_at is null or k.expires_at > now_at)
            and k.attempt < coalesce(k.max_attempts, most_attempts)
        order by k.visible_at, k.job_id
        limit max_jobs
        for update skip locked
    ) as j;

    extent.visible_at := floor_time;
    extent.extent_id := 0;
    while wanted > 0 loop
        -- SKIP LOCKED: the claim that has locked a batch expands it, unless it is rolled back.
        select r.*
        into extent
        from pgq.job_extent as r
        where r.queue_id = _expand_extents.queue_id
            and (r.visible_at, r.extent_id) > (extent.visible_at, extent.extent_id)
            and r.visible_at <= now_at
            and (r.expires_at is null or r.expires_at > now_at)
        order by r.visible_at, r.extent_id
        limit 1
        for update skip locked;

        exit when extent.extent_id is null;
        perform pgq._expand_extent(extent);
        wanted := wanted - extent.jobs;
    end loop;
end
$$;

comment on function pgq._expand_extents(
    bigint, integer, timestamptz, integer, timestamptz, bigint
) is
'Expands as many job extents of a queue as a claim of max_jobs needs: those due before the
jobs that it would get otherwise. The other arguments are values that the claim has read.';
