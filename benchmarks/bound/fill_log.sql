insert into message (payload)
select :'body'::bytea from generate_series(1, :messages);
