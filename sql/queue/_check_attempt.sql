create function pgq._check_attempt(worker text, began_at timestamptz)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if length(worker) > 255 then
        raise exception 'argument "worker" must have at most 255 characters'
            using errcode = '22023';
    end if;
    if not isfinite(began_at) then
        raise exception 'argument "began_at" must be finite' using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_attempt(text, timestamptz) is
'Refuses what a worker tells of its attempt (22023): too long a name, or a time that is none.';
