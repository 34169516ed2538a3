create function pgq._check_chunk(
    task integer, task_attempt text, chunk integer, lengths integer[], packed_payloads bytea,
    packed_bodies bytea
)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if num_nulls(task, task_attempt, chunk, lengths) > 0 then
        raise exception 'argument "%" must not be null',
            case
                when task is null then 'task'
                when task_attempt is null then 'task_attempt'
                when chunk is null then 'chunk'
                else 'lengths'
            end
            using errcode = '22004';
    end if;
    if (packed_payloads is null) = (packed_bodies is null) then
        raise exception '"packed_payloads", "packed_bodies": exactly one is needed'
            using errcode = case
                when packed_bodies is null then '22004'
                else '22023'
                end,
                hint = 'Pass JSON texts as packed_payloads, or raw bytes as packed_bodies.';
    end if;
    if least(task, chunk) < 0 then
        raise exception 'argument "%" must not be negative',
            case when task < 0 then 'task' else 'chunk' end using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_chunk(integer, text, integer, integer[], bytea, bytea) is
'Refuses a chunk with a null task, attempt, number, lengths or contents (22004), with both kinds of
contents, or with a negative number (22023).';
