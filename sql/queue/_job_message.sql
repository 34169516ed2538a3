create function pgq._job_message(
    job_id bigint, partition_id bigint, segment integer, log_offset bigint
)
returns pgq._stored_message
language plpgsql stable parallel safe
as $$
declare
    message pgq._stored_message := pgq._last_message(partition_id, segment, log_offset, log_offset);
begin
    -- The snapshot may be older than a cleanup that moved the payload to another segment.
    if message.log_offset is null and not pgq._is_kept(segment) then
        raise exception 'retention moved the payload of job % while it was being read',
            job_id using errcode = '40001', hint = 'Try again.';
    end if;
    return message;
end
$$;

comment on function pgq._job_message(bigint, bigint, integer, bigint) is
'Reads the payload of a job or a dead letter; nulls if it is missing. Raises 40001 when the snapshot
is too old to tell.';
