create function pgq._check_lease(job_id bigint, lease_token uuid)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if job_id is null then
        raise exception 'argument "job_id" must not be null' using errcode = '22004';
    end if;
    perform pgq._check_lease_token(lease_token);
end
$$;

comment on function pgq._check_lease(bigint, uuid) is
'Rejects a null job id or lease token (22004).';
