-- One job per transaction.
insert into queue (payload) values (:body::bytea);
