create function pgq._check_out_of_range(out_of_range text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if out_of_range not in ('error', 'skip') then
        raise exception 'argument "out_of_range" must be error or skip' using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_out_of_range(text) is
'Raises 22023 for an out_of_range other than error and skip.';
