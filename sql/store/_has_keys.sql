create function pgq._has_keys(segment integer)
returns boolean
language plpgsql volatile parallel unsafe
as $$
declare
    found_one boolean := false;
begin
    if segment is not null then
        execute format('select exists (select from pgq.idempotency_%s)', segment) into found_one;
    end if;
    return found_one;
end
$$;

comment on function pgq._has_keys(integer) is
'Whether a segment holds idempotency keys.';
