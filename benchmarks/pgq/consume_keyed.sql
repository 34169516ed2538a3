-- Consume a message, work for 5 ms and write the result, in one transaction.
begin;
select key, payload::text as number from pgq.consume('bench', 'g1', max_messages => 1) \gset
\sleep 5 ms
insert into done (key, number) values (:key, :number::bigint);
commit;
