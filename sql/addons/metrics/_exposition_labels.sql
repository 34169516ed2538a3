create function pgq._exposition_labels(labels jsonb)
returns text
language sql immutable parallel safe
as $$
select '{' || string_agg(
    format('%s="%s"', e.key, pgq._exposition_text(e.value)),
    ', '
    order by e.key collate "C"
    ) || '}'
from jsonb_each_text(_exposition_labels.labels) as e
$$;

comment on function pgq._exposition_labels(jsonb) is
'Labels in Prometheus'' text format, for any values.';
