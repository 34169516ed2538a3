-- the next version

create table pgq.sample (
    sample_id bigint primary key,
    note text,
    extra integer
);

comment on table pgq.sample is 'A new comment.';
comment on column pgq.sample.extra is 'A new column.';

create type pgq.sample_info as (first integer, second integer);

create function pgq.changes()
returns text
language sql
as $$ select s.extra::text from pgq.sample as s $$;

create function pgq.takes_less(topic text default 'none')
returns integer
language sql
as $$ select 1 $$;

create function pgq.takes_other(topic text, key text)
returns integer
language sql
as $$ select 1 $$;

create function pgq.comes()
returns integer
language sql
as $$ select 1 $$;

comment on function pgq.comes() is 'New.';

create function pgq.comes_for_all()
returns integer
language sql
as $$ select 1 $$;

create function pgq._figure(sample_id bigint)
returns integer
language sql
as $$ select 1 $$;

create view pgq.notes as
select s.note, s.extra
from pgq.sample as s;

comment on view pgq.notes is 'A view that gets a column.';
comment on column pgq.notes.extra is 'The column.';
