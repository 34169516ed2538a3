create function pgq._check_schedule_kept(settings pgq.schedule)
returns void
language plpgsql stable parallel safe
as $$
begin
    if not exists (
        select
        from pgq.topic as t
        where t.topic = settings.topic and t.topic_id = settings.topic_id
    )
    and not exists (
        select
        from pgq.queue as q
        where q.queue = settings.queue and q.queue_id = settings.queue_id
    ) then
        raise exception '% "%" was dropped',
            case when settings.queue is null then 'topic' else 'queue' end,
            coalesce(settings.queue, settings.topic)
            using errcode = case
                when settings.queue is null then 'MQ001' else 'MQ002'
                end,
                hint = 'Name a target with pgq.alter_schedule, also where a new one has that name.';
    end if;
end
$$;

comment on function pgq._check_schedule_kept(pgq.schedule) is
'Refuses a schedule whose topic or queue was dropped (MQ001, MQ002), even if another one has its
name now.';
