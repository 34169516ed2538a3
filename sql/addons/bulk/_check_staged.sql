create function pgq._check_staged(
    write_id uuid, task integer, chunk integer, payloads jsonb[], keys text[], headers jsonb[],
    partition integer, delay interval, priority integer, labels text[], bodies bytea[]
)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    if not exists (
        select
        from pgq.staged_chunk as c
        where c.write_id = _check_staged.write_id
            and c.task = _check_staged.task
            and c.chunk = _check_staged.chunk
            and c.payloads is not distinct from _check_staged.payloads
            and c.keys is not distinct from _check_staged.keys
            and c.headers is not distinct from _check_staged.headers
            and c.partition is not distinct from _check_staged.partition
            and c.delay is not distinct from _check_staged.delay
            and coalesce(c.priority, 0) = coalesce(_check_staged.priority, 0)
            and c.labels is not distinct from _check_staged.labels
            and coalesce(c.bodies, pgq._unpack(c.packed_bodies, c.lengths))
            is not distinct from _check_staged.bodies
    ) then
        perform pgq._fail_other_chunk(task, chunk);
    end if;
end
$$;

comment on function pgq._check_staged(
    uuid, integer, integer, jsonb[], text[], jsonb[], integer, interval, integer, text[], bytea[]
) is
'Refuses a chunk when different contents were staged under the same number (22023).';
