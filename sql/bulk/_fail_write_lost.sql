create function pgq._fail_write_lost(write_id uuid, reason text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if _fail_write_lost.write_id is null then
        raise exception 'argument "write_id" must not be null'
            using errcode = '22004';
    end if;
    raise exception 'bulk write % cannot go on', _fail_write_lost.write_id
        using errcode = 'MQ008',
            detail = _fail_write_lost.reason,
            hint = 'Begin the write anew with pgq.begin_write; with the same producer and seq '
                'nothing is written twice.';
end
$$;

comment on function pgq._fail_write_lost(uuid, text) is
'Raises MQ008.';
