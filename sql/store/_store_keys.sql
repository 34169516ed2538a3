create function pgq._store_keys(
    segments integer[], scope_id bigint, idempotency_window interval, idempotency_keys text[],
    job_ids bigint[], partitions integer[], log_offsets bigint[]
)
returns void
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    leaf integer;
    -- Read the clock only now: the call may have waited for locks.
    until timestamptz := pgq._clock() + idempotency_window;
begin
    foreach leaf in array coalesce(segments, '{}') loop
        insert into pgq.idempotency (
            scope_id, ends_at, job_id, log_offset, segment, partition, idempotency_key
        )
        select scope_id, until, w.job_id, w.log_offset, leaf, w.partition, w.idempotency_key
        from (
            select
                unnest(idempotency_keys) as idempotency_key,
                unnest(job_ids) as job_id, unnest(partitions) as partition,
                unnest(log_offsets) as log_offset
        ) as w
        on conflict (scope_id, idempotency_key, segment) do update
        set
            ends_at = excluded.ends_at,
            job_id = excluded.job_id, partition = excluded.partition,
            log_offset = excluded.log_offset;
    end loop;
end
$$;

comment on function pgq._store_keys(
    integer[], bigint, interval, text[], bigint[], integer[], bigint[]
) is
'Records the jobs or messages of the keys that this call has inserted into these segments.';
