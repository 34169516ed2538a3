create function pgq._end_dependents(scope text, target_id bigint, end_dependents boolean)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    lost record;
    found_any text;
begin
    if end_dependents is not true then
        select
            string_agg(
                case d.kind
                    when 'subscription' then format('Subscription "%s" was made', d.name)
                    when 'schedule' then format('Schedule "%s" was made', d.name)
                    else format(
                        'The dead_letter_topic of group "%s" of topic "%s" was set',
                        d.consumer_group, d.name
                    )
                end
                || format(' by role "%s".', d.made_by),
                ' '
                order by d.kind desc, d.name, d.consumer_group
            )
        into found_any
        from pgq._dependents(scope, target_id) as d;

        if found_any is not null then
            raise exception 'roles would lose access that is still used in their name'
                using errcode = '2BP01',
                    detail = found_any,
                    hint = 'Pass end_dependents => true to end these subscriptions, pause these '
                        'schedules and lift the max_attempts of these groups, or give the roles '
                        'the access.';
        end if;
        return;
    end if;

    -- The right to change access covers ending these, even if they name other topics or queues.
    perform pgq._act_for(true);
    for lost in select d.* from pgq._dependents(scope, target_id) as d loop
        if lost.kind = 'subscription' then
            perform pgq.unsubscribe(lost.name);
        elsif lost.kind = 'schedule' then
            update pgq.schedule as s
            set
                paused = true,
                last_error = format('42501: role "%s", which made it, lost access', lost.made_by)
            where s.schedule = lost.name;
        else
            perform pgq.alter_group(
                lost.name, lost.consumer_group, no_limit => array['max_attempts']
            );
        end if;
    end loop;
    perform pgq._act_for(false);
end
$$;

comment on function pgq._end_dependents(text, bigint, boolean) is
'Ends the dependents that _dependents returns, or raises 2BP01. The caller has already written the
change of access and holds the lock on the topic or queue, so no dependent can be added meanwhile.';
