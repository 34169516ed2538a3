create function pgq._look_below(queue_id bigint, moment timestamptz)
returns boolean
language plpgsql volatile parallel unsafe
set enable_bitmapscan = off
set jit = off
as $$
begin
    -- Index entries of dead rows have to be walked, and while a snapshot is held they stay. Where
    -- there are many, the look is left to cleanup: 3,000 take some 2 ms.
    return pg_stat_get_dead_tuples('pgq.job'::regclass) < 3000
        and pgq._lock_floor(queue_id) and pgq._lower_floor(queue_id, moment);
end
$$;

comment on function pgq._look_below(bigint, timestamptz) is
'Lowers the floors of a queue to a job below them, and says whether there was one.
For a claim that found nothing, at most every 5 seconds: it has just recorded the floors anew. The
clock may have been back for a while, without a claim meanwhile.';
