create function pgq._check_schedule_access(schedule text)
returns void
language plpgsql
stable
parallel unsafe
as $$
#variable_conflict use_column
begin
    if not exists (
        select
        from pgq.schedule as s
        where s.schedule = _check_schedule_access.schedule
            and pgq._may_use(s.topic, s.queue, 'publish')
    ) then
        perform pgq._fail_unknown_schedule(_check_schedule_access.schedule);
    end if;
end
$$;

comment on function pgq._check_schedule_access(text) is
'Raises MQ009 when there is no such schedule, or the caller may not publish to its topic or queue.';
