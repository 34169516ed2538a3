create function pgq._point_jobs(
    queue_id bigint, partition_id bigint, segment integer, offsets bigint[], visible_at timestamptz,
    expires_at timestamptz
)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    insert into pgq.job (
        job_id,
        queue_id,
        partition_id,
        log_offset,
        expires_at,
        visible_at,
        segment,
        attempt,
        priority
    )
    select
        nextval('pgq.job_id'),
        queue_id,
        partition_id,
        o.log_offset,
        expires_at,
        visible_at,
        segment,
        0,
        0
    from unnest(offsets) as o (log_offset);
end
$$;

comment on function pgq._point_jobs(bigint, bigint, integer, bigint[], timestamptz, timestamptz) is
'Adds jobs to a queue for payloads that are stored already, in the order of the array.';
