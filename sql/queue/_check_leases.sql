create function pgq._check_leases(job_ids bigint[], lease_token uuid)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if array_ndims(job_ids) > 1 then
        raise exception 'argument "job_ids" must have one dimension' using errcode = '22023';
    end if;
    if job_ids is null or array_position(job_ids, null) is not null then
        raise exception 'argument "job_ids" must not be null or contain null'
            using errcode = '22004';
    end if;
    perform pgq._check_lease_token(lease_token);
end
$$;

comment on function pgq._check_leases(bigint[], uuid) is
'Rejects null job ids or a null lease token (22004), and an array with more than one dimension
(22023).';
