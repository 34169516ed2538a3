create function pgq._visible_in_view(reader text, scope text, access text)
returns bigint[]
language plpgsql stable parallel safe
as $$
declare
    caller text := coalesce(nullif(current_setting('role'), 'none'), session_user);
    target_ids bigint[] := pgq._visible_to(reader, scope, access);
begin
    if caller collate "C" <> reader then
        return array(
            select unnest(target_ids)
            intersect
            select unnest(pgq._visible_to(caller, scope, access))
        );
    end if;
    return target_ids;
end
$$;

comment on function pgq._visible_in_view(text, text, text) is
'Like _visible, for a view: it passes its reader, so that plans with it may be parallel. If the
reader is not the role of the session (in a function, or for an index), both need the access.';
