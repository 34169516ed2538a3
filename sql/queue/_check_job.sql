create function pgq._check_job(
    payload jsonb, headers jsonb, priority integer, label text, unique_key text,
    max_attempts integer, body bytea
)
returns void
language plpgsql immutable parallel safe
as $$
begin
    perform pgq._check_content(payload, headers, body);
    perform pgq._check_count('priority', coalesce(priority, 0), 0, 9);
    perform pgq._check_label(label);
    perform pgq._check_unique_key(unique_key);
    perform pgq._check_count('max_attempts', coalesce(max_attempts, 1), 1, 2147483647);
end
$$;

comment on function pgq._check_job(jsonb, jsonb, integer, text, text, integer, bytea) is
'Rejects invalid arguments of enqueue (22004, 22023).';
