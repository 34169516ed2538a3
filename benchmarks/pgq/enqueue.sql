-- One job per transaction.
select * from pgq.enqueue('bench', body => :body::bytea);
