create function pgq._move_staged(
    partition_id bigint, segment integer, tids tid[], before_first bigint, publish_time timestamptz
)
returns void
language plpgsql volatile parallel unsafe
set enable_indexscan = off
set enable_indexonlyscan = off
as $$
begin
    -- UPDATE keeps TOASTed values where they are. Rows are found by tid: with the other scan types
    -- disabled, a plan prepared on an empty table cannot read the whole table.
    -- for the first 16 leaves: _move_staged.segment
    update pgq.message_{leaf} as m
    set
        partition_id = {_move_staged.partition_id},
        log_offset = {before_first} + f.ordinal, published_at = {publish_time}
    from unnest({tids}) with ordinality as f (tid, ordinal)
    where m.ctid = f.tid;
    -- end of the leaf
end
$$;

comment on function pgq._move_staged(bigint, integer, tid[], bigint, timestamptz) is
'Assigns the next offsets of a partition, whose row the caller has locked, to staged messages in the
segment that it writes to: to the rows with these tids, in this order.';
