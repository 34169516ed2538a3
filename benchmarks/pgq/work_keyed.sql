-- Claim a job, work for 5 ms, write the result and ack in one transaction.
\set job 0
select job_id as job, lease_token, key, payload::text as number from pgq.claim_job('bench') \aset
\if :job > 0
\sleep 5 ms
begin;
insert into done (key, number) values (:key, :number::bigint);
select pgq.ack(:job, :lease_token::uuid);
commit;
\endif
