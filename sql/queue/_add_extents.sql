create function pgq._add_extents(
    queue_id bigint, partition_id bigint, segment integer, offsets bigint[], visible_at timestamptz,
    expires_at timestamptz
)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- At most 100 messages per batch: a claim of one job expands a whole batch.
    insert into pgq.job_extent (
        queue_id,
        visible_at,
        extent_id,
        partition_id,
        first_offset,
        expires_at,
        segment,
        jobs,
        ordinals
    )
    select
        queue_id,
        visible_at,
        nextval('pgq.job_id'),
        partition_id,
        r.first_offset,
        expires_at,
        segment,
        r.jobs,
        case when r.last_ordinal >= r.jobs then r.ordinals end
    from (
        select
            offsets[1] + p.piece * 100 as first_offset, count(*)::integer as jobs,
            max(p.ordinal) as last_ordinal, array_agg(p.ordinal order by p.ordinal) as ordinals
        from (
            select
                (o.log_offset - offsets[1]) / 100 as piece,
                ((o.log_offset - offsets[1]) % 100)::smallint as ordinal
            from unnest(offsets) as o (log_offset)
        ) as p
        group by p.piece
        order by p.piece
    ) as r;
end
$$;

comment on function pgq._add_extents(bigint, bigint, integer, bigint[], timestamptz, timestamptz) is
'Adds jobs like _point_jobs, but as job extents of up to 100 messages.';
