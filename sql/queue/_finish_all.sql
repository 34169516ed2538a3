create function pgq._finish_all(job_ids bigint[], lease_token uuid)
returns void
language plpgsql volatile parallel unsafe
set jit = off
as $$
declare
    lost bigint[];
begin
    perform pgq._check_leases(job_ids, lease_token);

    lost := array(
        select r.job_id
        from unnest(job_ids) as r (job_id)
        except
        select f
        from pgq._finish(job_ids, lease_token, 'acked', null, false) as f
    );
    if cardinality(lost) > 0 then
        perform pgq._fail_job_lost(lost);
    end if;
end
$$;

comment on function pgq._finish_all(bigint[], uuid) is
'Ends jobs like ack_batch, or raises MQ006 when one of them is not held under the token.';
