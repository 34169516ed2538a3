create function pgq._check_schedule_target(queue text, topic text, partition integer)
returns void
language plpgsql
stable
parallel unsafe
as $$
#variable_conflict use_column
declare
    partitions integer;
begin
    perform pgq._check_access(
        _check_schedule_target.topic, _check_schedule_target.queue, 'publish'
    );

    if _check_schedule_target.queue is not null then
        if not exists (
            select
            from pgq.queue as q
            where q.queue = _check_schedule_target.queue
        ) then
            perform pgq._fail_unknown_queue(_check_schedule_target.queue);
        end if;
        return;
    end if;

    select t.partitions
    into partitions
    from pgq.topic as t
    where t.topic = _check_schedule_target.topic;

    if not found then
        perform pgq._fail_unknown_topic(_check_schedule_target.topic);
    end if;
    if _check_schedule_target.partition not between 0 and partitions - 1 then
        perform pgq._fail_unknown_partition(
            _check_schedule_target.topic, _check_schedule_target.partition, partitions
        );
    end if;
end
$$;

comment on function pgq._check_schedule_target(text, text, integer) is
'Refuses a queue, a topic or a partition that is not there (MQ001, MQ002, MQ007).';
