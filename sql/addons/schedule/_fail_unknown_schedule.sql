create function pgq._fail_unknown_schedule(schedule text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if schedule is null then
        raise exception 'argument "schedule" must not be null' using errcode = '22004';
    end if;
    raise exception 'unknown schedule "%"', schedule
        using errcode = 'MQ009',
            hint = 'Create it with pgq.create_schedule, or see pgq.list_schedules for those that '
                'exist.';
end
$$;

comment on function pgq._fail_unknown_schedule(text) is
'Raises MQ009, or 22004 when the name is null.';
