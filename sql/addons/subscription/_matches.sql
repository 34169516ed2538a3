create function pgq._matches(headers jsonb, filter jsonb, routing_regex text)
returns boolean
language sql immutable parallel safe
as $$
select coalesce(
    (
        _matches.filter is null
        or not exists (
            select
            from jsonb_each(_matches.filter) as f
            where not exists (
                select
                from jsonb_array_elements(f.value) as v
                where v.value = _matches.headers -> f.key
            )
        )
    )
    and (
        _matches.routing_regex is null
        or case
            when jsonb_typeof(_matches.headers -> 'routing_key') <> 'string' then null
            when _matches.headers ->> 'routing_key' = '' then ''
            else '.' || (_matches.headers ->> 'routing_key')
        end ~ _matches.routing_regex collate "C"
    ),
    false
)
$$;

comment on function pgq._matches(jsonb, jsonb, text) is
'Whether headers match a filter and a routing pattern. It raises no error for any headers; a routing
key that is not a string matches nothing.';
