insert into queue (payload)
select :'body'::bytea from generate_series(1, :jobs);
