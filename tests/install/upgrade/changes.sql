alter table pgq.sample drop column unused;
alter table pgq.sample add column extra integer;

-- its type is in the way
drop function pgq.inform;
drop type pgq.sample_info;
create type pgq.sample_info as (first integer, second integer);
