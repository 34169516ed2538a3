create function pgq._look_below(queue_id bigint, now_at timestamptz)
returns boolean
language plpgsql volatile parallel unsafe
set enable_bitmapscan = off
set jit = off
as $$
begin
    -- The scan walks index entries of dead rows, which stay while an old snapshot is held. Above
    -- 3,000 dead rows (about 2 ms) leave the search to cleanup.
    return pg_stat_get_dead_tuples('pgq.job'::regclass) < 3000
        and pgq._lock_floor(queue_id) and pgq._lower_floor(queue_id, now_at);
end
$$;

comment on function pgq._look_below(bigint, timestamptz) is
'Lowers the floors of a queue to a claimable job below them; false: there is none.
Called by a claim that found nothing and has just recorded the floors, so at most every 5 seconds.
It finds jobs written while the clock was set back, if no claim ran during that time.';
