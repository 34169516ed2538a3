-- As claim_ack.sql; the claim does not wait for its flush, the ack does.
select c.job_id, c.lease_token, c.body
from
    set_config('synchronous_commit', 'off', true),
    lateral pgq.claim_job('bench') as c \gset
select pgq.ack(:job_id, :lease_token::uuid);
