create function pgq._check_no_limit(no_limit text[], given jsonb)
returns void
language plpgsql immutable parallel safe
as $$
declare
    allowed text[] := array(
        select k.name
        from jsonb_object_keys(given) as k (name)
        order by k.name
    );
    twice text;
begin
    if array_ndims(no_limit) > 1 then
        raise exception 'argument "no_limit" must have one dimension' using errcode = '22023';
    end if;
    if not coalesce(no_limit, '{}') <@ allowed then
        raise exception 'argument "no_limit" must name nothing but settings with a limit to lift'
            using errcode = '22023',
                detail = format(
                    'Given: %s; allowed: %s.', array_to_string(no_limit, ', ', 'null'),
                    array_to_string(allowed, ', ')
                );
    end if;

    select min(g.key)
    into twice
    from jsonb_each(jsonb_strip_nulls(given)) as g
    where g.key = any(no_limit);

    if twice is not null then
        raise exception '"%" and "no_limit" exclude each other', twice
            using errcode = '22023',
                detail = format('"no_limit" names "%s", which is given.', twice);
    end if;
end
$$;

comment on function pgq._check_no_limit(text[], jsonb) is
'Raises 22023 when no_limit names a setting that has no limit to lift, or one that is given, or has
several dimensions. given has the settings whose limits can be lifted, null for those that are not
given.';
