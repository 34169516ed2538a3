create function pgq._clock()
returns timestamptz
language sql volatile parallel safe
as $$
select clock_timestamp()
$$;

comment on function pgq._clock() is
'The time by which leases, delays and retention are measured.
Every function reads the clock here, so that a test can move it.';
