create function pgq._check_heartbeat(host text, sources text[], details jsonb)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if array_ndims(sources) > 1 then
        raise exception 'argument "sources" must have one dimension' using errcode = '22023';
    end if;
    if array_position(sources, null) is not null then
        raise exception 'argument "sources" must not contain null' using errcode = '22004';
    end if;

    -- Characters, not bytes: a client can shorten its texts without knowing the encoding.
    if cardinality(sources) > 1000 or length(array_to_string(sources, '')) > 16384 then
        raise exception 'argument "sources" must have at most 1000 names of 16384 characters in all'
            using errcode = '22023', detail = format('Given: %s names.', cardinality(sources));
    end if;
    if length(host) > 255 then
        raise exception 'argument "host" must have at most 255 characters' using errcode = '22023';
    end if;
    if length(details::text) > 8192 then
        raise exception 'argument "details" must have at most 8192 characters'
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_heartbeat(text, text[], jsonb) is
'Checks the arguments of a heartbeat: raises 22004 for a null among the sources, 22023 for one that
is too large.';
