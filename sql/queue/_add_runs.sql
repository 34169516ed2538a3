create function pgq._add_runs(
    queue_id bigint, partition_id bigint, segment integer, offsets bigint[], visible_at timestamptz,
    expires_at timestamptz
)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    -- At most 100 messages per batch: a claim of one job expands a whole batch.
    insert into pgq.job_run (
        queue_id,
        visible_at,
        run_id,
        partition_id,
        first_offset,
        expires_at,
        segment,
        jobs,
        places
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
        case when r.last_place >= r.jobs then r.places end
    from (
        select
            offsets[1] + p.piece * 100 as first_offset, count(*)::integer as jobs,
            max(p.place) as last_place, array_agg(p.place order by p.place) as places
        from (
            select
                (o.log_offset - offsets[1]) / 100 as piece,
                ((o.log_offset - offsets[1]) % 100)::smallint as place
            from unnest(offsets) as o (log_offset)
        ) as p
        group by p.piece
        order by p.piece
    ) as r;
end
$$;

comment on function pgq._add_runs(bigint, bigint, integer, bigint[], timestamptz, timestamptz) is
'Adds jobs like _point_jobs, but as job batches (job_run) of up to 100 messages.';
