create function pgq._filter_matches(
    filter pgq._job_filter, label text, last_error text, ordered_key text, comes_at timestamptz
)
returns boolean
language sql immutable parallel safe
as $$
select coalesce(
    ((filter).label is null or label = (filter).label)
    and ((filter).key is null or ordered_key = (filter).key)
    and ((filter).since is null or comes_at >= (filter).since)
    and ((filter).before is null or comes_at < (filter).before)
    and (
        (filter).error_contains is null
        or strpos(last_error, (filter).error_contains collate "C") > 0
    ),
    false
)
$$;

comment on function pgq._filter_matches(pgq._job_filter, text, text, text, timestamptz) is
'Whether a job or dead letter with this label, error and key, due or dead at this time, matches a
filter.';
