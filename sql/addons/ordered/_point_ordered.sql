create function pgq._point_ordered(
    queue_id bigint, partition_id bigint, segment integer, offsets bigint[], visible_at timestamptz,
    expires_at timestamptz
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    keys text[];
    free text[];
    turns boolean[];
    ids bigint[];
begin
    -- Truncate instead of raising: a long key must not fail the publish. Keys with the same first
    -- 255 characters count as one.
    -- for the first 16 leaves: segment
    select array_agg(left(m.key, 255) order by m.log_offset)
    from pgq.message_{leaf} as m
    where m.partition_id = {_point_ordered.partition_id} and m.log_offset = any({offsets})
    into keys;
    -- end of the leaf

    -- Lock the keys before taking ids: ids of a key must be in commit order.
    free := pgq._join_order(queue_id, keys);
    ids := array(select nextval('pgq.job_id') from generate_series(1, cardinality(keys)));
    turns := pgq._turns(queue_id, keys, free);

    insert into pgq.job (
        job_id,
        queue_id,
        partition_id,
        log_offset,
        expires_at,
        visible_at,
        segment,
        attempt,
        priority,
        ordered_key,
        due_at
    )
    select
        b.job_id,
        queue_id,
        partition_id,
        b.log_offset,
        expires_at,
        case when b.waits then 'infinity' else visible_at end,
        segment,
        0,
        0,
        b.ordered_key,
        case when b.waits then visible_at end
    from (
        select
            unnest(ids) as job_id, unnest(offsets) as log_offset,
            unnest(keys) as ordered_key, unnest(turns) as waits
    ) as b;
end
$$;

comment on function pgq._point_ordered(
    bigint, bigint, integer, bigint[], timestamptz, timestamptz
) is
'Adds jobs like _point_jobs, to an ordered queue: the offsets, ascending, are those of messages in
one segment, whose keys decide which jobs are blocked by an earlier one.';
