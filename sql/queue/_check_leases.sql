create function pgq._check_leases(job_ids bigint[], lease_token uuid, begun bigint[] default null)
returns void
language plpgsql immutable parallel safe
as $$
begin
    if array_ndims(job_ids) > 1 or array_ndims(begun) > 1 then
        raise exception 'argument "%" must have one dimension',
            case when array_ndims(job_ids) > 1 then 'job_ids' else 'begun' end
            using errcode = '22023';
    end if;
    if job_ids is null or array_position(job_ids, null) is not null then
        raise exception 'argument "job_ids" must not be null or contain null'
            using errcode = '22004';
    end if;
    if array_position(begun, null) is not null then
        raise exception 'argument "begun" must not contain null' using errcode = '22004';
    end if;
    perform pgq._check_lease_token(lease_token);
end
$$;

comment on function pgq._check_leases(bigint[], uuid, bigint[]) is
'Rejects null job ids, a null lease token or a null in begun (22004), and an array with more than
one dimension (22023).';
