-- :batch jobs per transaction.
insert into queue (payload) select unnest(array_fill(:body::bytea, array[:batch::integer]));
