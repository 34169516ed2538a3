create function pgq._free_keys(job_ids bigint[])
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    delete from pgq.unique_job as u
    where u.job_id = any(_free_keys.job_ids);
end
$$;

comment on function pgq._free_keys(bigint[]) is
'Takes their unique keys from jobs, whose rows the caller has locked.';
