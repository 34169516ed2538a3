-- One message in a transaction that goes on with other work for 100 ms.
begin;
select * from pgq.publish('bench', body => :body::bytea);
\sleep 100 ms
commit;
