create function pgq._check_schedule_size(settings pgq.schedule_info)
returns void
language plpgsql volatile parallel unsafe
as $$
begin
    perform pgq._check_size(
        settings.topic, settings.queue, null, array[settings.payload], array[settings.key],
        array[settings.headers], array[settings.body]
    );
end
$$;

comment on function pgq._check_schedule_size(pgq.schedule_info) is
'Refuses what a schedule publishes if its topic or queue does not take so large a message (22023).';
