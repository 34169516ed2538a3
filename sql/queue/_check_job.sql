create function pgq._check_job(
    payload jsonb,
    headers jsonb,
    priority integer,
    label text,
    unique_key text,
    max_attempts integer,
    body bytea
)
returns void
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
begin
    perform pgq._check_content(_check_job.payload, _check_job.headers, _check_job.body);
    perform pgq._check_count('priority', coalesce(_check_job.priority, 0), 0, 9);
    perform pgq._check_label(_check_job.label);
    perform pgq._check_unique_key(_check_job.unique_key);
    perform pgq._check_count(
        'max_attempts', coalesce(_check_job.max_attempts, 1), 1, 2147483647
    );
end
$$;

comment on function pgq._check_job(jsonb, jsonb, integer, text, text, integer, bytea) is
'Refuses arguments of enqueue that are not possible (22004, 22023).';
