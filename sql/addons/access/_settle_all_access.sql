create function pgq._settle_all_access(scope text, end_dependents boolean)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    target record;
begin
    for target in
        select t.topic, null as queue
        from pgq.topic as t
        where scope = 'topic' and t.restricted
        union all
        select null, q.queue
        from pgq.queue as q
        where scope = 'queue' and q.restricted
        order by 1, 2
    loop
        -- Skip a topic or queue that was dropped meanwhile.
        begin
            if target.topic is not null then
                perform pgq._settle_access(
                    pgq._lock_access(target.topic, null, end_dependents), null, true
                );
            else
                perform pgq._settle_access(
                    null, pgq._lock_access(null, target.queue, end_dependents), true
                );
            end if;
        exception
            when sqlstate 'MQ001' or sqlstate 'MQ002' then
                continue;
        end;
    end loop;
end
$$;

comment on function pgq._settle_all_access(text, boolean) is
'Copies the roles that may publish and consume again for all restricted topics or all restricted
queues.';
