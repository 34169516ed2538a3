-- One message (or one job) per transaction: the plain INSERT.
insert into message (payload) select unnest(array[:body::bytea]);
