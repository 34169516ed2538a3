-- One job, and then the oldest one is leased, finished and noted in the archive.
select * from pgq.enqueue('bench', body => :body::bytea);
select job_id, lease_token, body from pgq.claim_job('bench') \gset
select pgq.ack(:job_id, :lease_token::uuid);
