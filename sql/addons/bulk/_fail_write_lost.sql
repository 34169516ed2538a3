create function pgq._fail_write_lost(write_id uuid, reason text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if write_id is null then
        raise exception 'argument "write_id" must not be null' using errcode = '22004';
    end if;
    raise exception 'bulk write % is lost', write_id
        using errcode = 'MQ008',
            detail = coalesce(
                reason,
                'There is no open write of this id: it was started again under another id, '
                'aborted, or forgotten after its timeout, or there never was one.'
            ),
            hint = 'Start the write again with pgq.begin_write; with the same producer and seq '
                'nothing is written twice.';
end
$$;

comment on function pgq._fail_write_lost(uuid, text) is
'Raises MQ008 with this reason; without one, the detail says that no open write has this id.';
