create function pgq._exposition_line(name text, labels jsonb, written text, value double precision)
returns text
language sql immutable parallel safe
as $$
-- Keep this a single expression, so that the planner inlines it. The labels come as text too, since
-- a conversion here would be repeated and is slow. Text of JSON differs from the format only in the
-- separators, unless a value has quotes or backslashes.
select _exposition_line.name
    || case
        when _exposition_line.written = '{}' then ''
        when strpos(_exposition_line.written, E'\\') > 0
            or strpos(_exposition_line.written, '": ", "') > 0
            then pgq._exposition_labels(_exposition_line.labels)
        else '{' || substr(
            replace(replace(_exposition_line.written, '": "', '="'), '", "', '", '), 3
        )
    end
    || ' '
    || case
        when _exposition_line.value = 'infinity' then '+Inf'
        when _exposition_line.value = '-infinity' then '-Inf'
        else _exposition_line.value::text
    end
$$;

comment on function pgq._exposition_line(text, jsonb, text, double precision) is
'A sample as a line of Prometheus'' text format.';
