create function pgq._check_label(label text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if length(label) > 255 then
        raise exception 'a label must have at most 255 characters' using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_label(text) is
'Rejects a label that is too long for its index: more than 255 characters (22023).';
