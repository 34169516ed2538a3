create function pgq._expand_run(run pgq.job_run)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    delete from pgq.job_run as r
    where r.queue_id = (run).queue_id
        and r.visible_at = (run).visible_at and r.run_id = (run).run_id;

    -- The jobs are due when the batch was: no floor has risen above it, see _raise_floor.
    perform pgq._point_jobs(
        (run).queue_id, (run).partition_id, (run).segment,
        array(
            select (run).first_offset + p.place
            from unnest(
                coalesce((run).places, array(select generate_series(0, (run).jobs - 1)::smallint))
            ) as p (place)
        ),
        (run).visible_at, (run).expires_at
    );
end
$$;

comment on function pgq._expand_run(pgq.job_run) is
'Expands a job batch (job_run), whose row the caller has locked, into jobs in the order of their
messages.';
