-- the version that is released

create table pgq.sample (
    sample_id bigint primary key,
    unused text,
    note text
);

comment on table pgq.sample is 'An old comment; it''s -- gone soon.';

create type pgq.sample_info as (first integer);

create function pgq.changes()
returns text
language sql
as $$ select 'old;' $$;

create function pgq.takes_less()
returns integer
language sql
as $$ select 1 $$;

create function pgq.takes_other(topic text)
returns integer
language sql
as $$ select 1 $$;

create function pgq.goes()
returns integer
language sql
as $$ select 1 $$;

create function pgq._figure(sample_id bigint)
returns bigint
language sql
as $$ select 1::bigint $$;

create view pgq.notes as
select s.note
from pgq.sample as s;

comment on view pgq.notes is 'A view that gets a column.';
