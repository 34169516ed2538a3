create function pgq._check_outcome(outcome text)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    if length(_check_outcome.outcome) not between 1 and 63 then
        raise exception 'argument "outcome" must have 1 to 63 characters'
            using errcode = '22023';
    end if;
end
$$;

comment on function pgq._check_outcome(text) is
'Refuses an outcome that is empty or long (22023).';
