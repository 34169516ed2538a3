-- One message per transaction, into whichever partition is free.
select * from pgq.publish('bench', body => :body::bytea);
