create function pgq._check_schedule_access(schedule text)
returns void
language plpgsql stable parallel unsafe
as $$
begin
    if not exists (
        select
        from pgq.schedule as s
        where s.schedule = _check_schedule_access.schedule
            and pgq._sees_schedule(s.made_by, s.topic_id, s.queue_id)
    ) then
        perform pgq._fail_unknown_schedule(schedule);
    end if;
end
$$;

comment on function pgq._check_schedule_access(text) is
'Raises MQ009 when the schedule does not exist, or the caller may not publish to its topic or
queue.';
