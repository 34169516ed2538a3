create function pgq.set_storage_bounds(
    max_retentions integer default null,
    max_sized_topics integer default null
)
returns void
language plpgsql volatile parallel unsafe
set search_path = pgq, pg_temp
as $$
begin
    perform pgq._check_count('max_retentions', coalesce(max_retentions, 1), 1, 1000);
    perform pgq._check_count('max_sized_topics', coalesce(max_sized_topics, 1), 1, 1000);

    insert into pgq.storage_bound as b (max_retentions, max_sized_topics)
    values (coalesce(max_retentions, 24), coalesce(max_sized_topics, 100))
    on conflict (is_only_row) do update
    set
        max_retentions = coalesce(set_storage_bounds.max_retentions, b.max_retentions),
        max_sized_topics = coalesce(set_storage_bounds.max_sized_topics, b.max_sized_topics);
end
$$;

comment on function pgq.set_storage_bounds(integer, integer) is
'Limits the number of different retentions, and of topics with max_bytes; null keeps a limit.
Each takes up to five segments of four tables, and each segment costs locks and time in views,
metrics, cleanup and dumps, which read all of them. max_retentions: different lengths of retentions
and idempotency windows together, where a window counts as the next longer of 1 hour, 1, 7, 31 and
366 days; 24 unless it is set. max_sized_topics: 100 unless it is set. Both are from 1 to 1000.
Existing retentions and topics stay, even above a limit; a create or alter that would need more is
refused, a publish never. Only the owner of pgq can set the limits.
Errors: 22023 bad bound, 40001 above READ COMMITTED when another transaction was first (try again),
42501 the caller is not the owner of pgq.';
