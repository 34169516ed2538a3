create function pgq._exposition_text(value text)
returns text
language sql immutable parallel safe
as $$
select replace(replace(replace(_exposition_text.value, E'\\', E'\\\\'), '"', E'\\"'), E'\n', E'\\n')
$$;

comment on function pgq._exposition_text(text) is
'A label value, escaped as it stands between quotes in Prometheus'' text format.';
