-- One job per transaction.
select pgq.enqueue('bench', body => :body::bytea);
