-- :batch messages per transaction.
insert into message (payload) select unnest(array_fill(:body::bytea, array[:batch::integer]));
