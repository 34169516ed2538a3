-- what both versions have

create view pgq.samples
with (security_barrier) as
select s.sample_id, s.note, pgq._figure(s.sample_id) as figure
from pgq.sample as s;

comment on view pgq.samples is 'Uses a function that is made anew.';
comment on column pgq.samples.figure is 'What the function says.';

create view pgq.sample_ids as
select s.sample_id
from pgq.samples as s;

comment on view pgq.sample_ids is 'Uses a view that is made anew.';

create function pgq.inform()
returns setof pgq.sample_info
language sql
stable
as $$ select null::pgq.sample_info $$;

comment on function pgq.inform() is 'Returns a type that is made anew.';

create function pgq._insert_note()
returns trigger
language plpgsql
as $$ begin return new; end $$;

create trigger notes
instead of insert on pgq.notes
for each row execute function pgq._insert_note();
