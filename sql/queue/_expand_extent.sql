create function pgq._expand_extent(extent pgq.job_extent)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    delete from pgq.job_extent as r
    where r.queue_id = (extent).queue_id
        and r.visible_at = (extent).visible_at and r.extent_id = (extent).extent_id;

    -- The jobs are due when the batch was: no floor has risen above it, see _raise_floor.
    perform pgq._point_jobs(
        (extent).queue_id, (extent).partition_id, (extent).segment,
        array(
            select (extent).first_offset + p.ordinal
            from unnest(
                coalesce(
                    (extent).ordinals, array(select generate_series(0, (extent).jobs - 1)::smallint)
                )
            ) as p (ordinal)
        ),
        (extent).visible_at, (extent).expires_at
    );
end
$$;

comment on function pgq._expand_extent(pgq.job_extent) is
'Expands a job extent, whose row the caller has locked, into jobs in the order of their
messages.';
