create function pgq._check_outcome(outcome text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if length(outcome) not between 1 and 63 then
        raise exception 'argument "outcome" must have 1 to 63 characters' using errcode = '22023';
    end if;
    if outcome in ('acked', 'expired', 'cancelled', 'replaced') then
        raise exception 'argument "outcome" must not be acked, expired, cancelled or replaced'
            using errcode = '22023', detail = format('"%s" is what pgq itself notes.', outcome);
    end if;
end
$$;

comment on function pgq._check_outcome(text) is
'Rejects an outcome that is empty, longer than 63 characters, or one that only pgq itself records
(22023).';
