create function pgq._exposition_line(name text, labels jsonb, written text, value double precision)
returns text
language sql immutable parallel safe
as $$
-- The planner writes it out where it is called, so it must stay one expression, and the labels come
-- as a text as well, which takes a while to make. JSON differs from what is wanted by what stands
-- between the texts, where these have neither quotes nor the like.
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
'A figure as a line of Prometheus'' text format.';
