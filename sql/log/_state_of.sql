create function pgq._state_of(row_of pgq.partition)
returns pgq._partition_state
language sql stable parallel safe
as $$
select
    row(
        (row_of).partition,
        (row_of).partition_id,
        (row_of).segment,
        (row_of).segment_first_offset,
        (row_of).segment_entered_at,
        (row_of).segment_until,
        (row_of).has_delivery,
        (row_of).deferred,
        (row_of).stored_partition_id
    )::pgq._partition_state
$$;

comment on function pgq._state_of(pgq.partition) is
'The columns of a partition that its publisher needs. PostgreSQL inlines it, so that all
of its fields are read without a call.';
