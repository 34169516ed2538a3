create function pgq._visible_topics(key uuid, reader text, access text)
returns table (topic_id bigint, topic text)
language plpgsql stable parallel safe
security definer
set search_path = pgq, pg_temp
as $$
begin
    if not exists (select from pgq.view_key as k where k.key = _visible_topics.key) then
        raise exception 'permission denied for the names of topics'
            using errcode = '42501',
                hint = 'The views of pgq show them to those who may read these.';
    end if;

    return query
    select t.topic_id, t.topic
    from pgq.topic as t
    where not t.restricted
        or t.topic_id in (select unnest(pgq._visible_in_view(reader, 'topic', access)));
end
$$;

comment on function pgq._visible_topics(uuid, text, text) is
'The topics to which the reader of a view has this access. The key, which only the views can read,
proves that a view calls.
Errors: 42501 no permission.';
