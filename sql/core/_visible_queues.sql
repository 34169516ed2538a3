create function pgq._visible_queues(key uuid, reader text, access text)
returns table (queue_id bigint, queue text)
language plpgsql stable parallel safe
security definer
set search_path = pgq, pg_temp
as $$
begin
    if not exists (select from pgq.view_key as k where k.key = _visible_queues.key) then
        raise exception 'permission denied for the names of queues'
            using errcode = '42501',
                hint = 'The views of pgq show them to those who may read these.';
    end if;

    return query
    select q.queue_id, q.queue
    from pgq.queue as q
    where not q.restricted
        or q.queue_id in (select unnest(pgq._visible_in_view(reader, 'queue', access)));
end
$$;

comment on function pgq._visible_queues(uuid, text, text) is
'The queues to which the reader of a view has this access. The key, which only the views can read,
proves that a view calls.
Errors: 42501 no permission.';
