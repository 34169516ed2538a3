create function pgq._liftable(given jsonb, declared pgq._setting[])
returns jsonb
language sql immutable parallel safe
as $$
select jsonb_object_agg(d.name, _liftable.given -> d.name)
from unnest(_liftable.declared) as d
where d.may_lift
$$;

comment on function pgq._liftable(jsonb, pgq._setting[]) is
'The given settings whose limit can be lifted, as _check_no_limit needs them.';
