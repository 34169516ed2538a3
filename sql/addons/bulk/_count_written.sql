create function pgq._count_written(target pgq.bulk_write, expected_messages bigint)
returns bigint
language plpgsql volatile parallel unsafe
as $$
declare
    total bigint;
    stale_task integer;
begin
    if target.atomic then
        perform pgq._fail_write_lost(
            target.write_id,
            format(
                'Task %s staged %s of %s messages: its last chunk never came, or its chunks were '
                'in several transactions.',
                k.task, coalesce(s.messages, 0), coalesce(k.messages::text, 'unknown')
            )
        )
        from pgq.staged_task as k
        cross join lateral (
            select sum(c.messages) as messages
            from pgq.staged_chunk as c
            where c.write_id = k.write_id and c.task = k.task
        ) as s
        where k.write_id = target.write_id and s.messages is distinct from k.messages
        order by k.task
        limit 1;

        select coalesce(sum(k.messages), 0)
        into total
        from pgq.staged_task as k
        where k.write_id = target.write_id;
    else
        select coalesce(sum(p.messages), 0), min(p.task) filter (where p.attempt < target.attempt)
        into total, stale_task
        from pgq.published_chunk as p
        where p.bulk_write_id = target.bulk_write_id;
    end if;

    if stale_task is not null then
        raise exception 'bulk write % had other tasks or chunks in an earlier attempt',
            target.write_id
            using errcode = '22023',
                detail = format(
                    'An earlier attempt published chunks of task %s that this one did not write; '
                    'their messages may have been published twice.', stale_task
                ),
                hint = 'A write that is repeated must have the same tasks and chunks. When its '
                    'input may be divided in another way, use atomic writes.';
    end if;
    if total <> expected_messages then
        raise exception 'bulk write % has another number of messages than expected',
            target.write_id
            using errcode = '22023',
                detail = format('Expected: %s; written: %s.', expected_messages, total),
                hint = case
                    when target.atomic then 'Nothing was published.'
                    else 'The chunks that came have been published.'
                end;
    end if;
    return total;
end
$$;

comment on function pgq._count_written(pgq.bulk_write, bigint) is
'Returns the number of messages of a bulk write. Raises MQ008 when a part of it is missing, and
22023 when the number is not the expected one, or when an earlier attempt published chunks of a task
that this attempt did not write.';
