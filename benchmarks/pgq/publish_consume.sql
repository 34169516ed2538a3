-- One message, and then what there is to read, by whichever client gets it.
select * from pgq.publish('bench', body => :body::bytea);
select log_offset, body from pgq.consume('bench', 'g1', max_messages => :batch::integer);
