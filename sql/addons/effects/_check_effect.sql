create function pgq._check_effect(effect text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if effect is null then
        raise exception 'argument "effect" must not be null' using errcode = '22004';
    end if;
    if length(effect) not between 1 and 255 then
        raise exception 'argument "effect" must have 1 to 255 characters' using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_effect(text) is
'Rejects an effect name that is null (22004), empty or longer than 255 characters (22023).';
