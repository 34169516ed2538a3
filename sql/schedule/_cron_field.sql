create function pgq._cron_field(
    field text,
    given text,
    lowest integer,
    highest integer,
    names text[]
)
returns integer[]
language plpgsql
immutable
parallel safe
as $$
#variable_conflict use_column
declare
    item text;
    part text[];
    first_value integer;
    last_value integer;
    step integer;
    found_values integer[] := '{}';
begin
    foreach item in array string_to_array(_cron_field.given, ',') loop
        -- A star, or a first value and perhaps a last one; then perhaps a step.
        part := regexp_match(
            lower(item collate "C"),
            '^(?:\*|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?$'
        );
        if part[1] is null then
            first_value := _cron_field.lowest;
            last_value := _cron_field.highest;
        else
            first_value := case
                when part[1] ~ '[0-9]' then part[1]::integer
                else _cron_field.lowest - 1 + array_position(_cron_field.names, part[1])
            end;
            last_value := case
                when part[2] is null then first_value
                when part[2] ~ '[0-9]' then part[2]::integer
                else _cron_field.lowest - 1 + array_position(_cron_field.names, part[2])
            end;
            -- A week ends with a Sunday too: FRI-SUN.
            if _cron_field.highest = 7 and last_value = 0 and first_value > 0 then
                last_value := 7;
            end if;
        end if;
        step := coalesce(part[3]::integer, 1);

        if (
            part is not null
            and first_value >= _cron_field.lowest
            and last_value between first_value and _cron_field.highest
            and step between 1 and _cron_field.highest
            and (part[3] is null or part[1] is null or part[2] is not null)
        ) is not true then
            perform pgq._fail_cron(
                format('Field "%s": "%s".', _cron_field.field, left(item, 100))
            );
        end if;

        found_values := found_values || array(
            select g.value
            from generate_series(first_value, last_value, step) as g (value)
        );
    end loop;

    return array(
        select distinct case when _cron_field.highest = 7 then f.value % 7 else f.value end as value
        from unnest(found_values) as f (value)
        order by value
    );
end
$$;

comment on function pgq._cron_field(text, text, integer, integer, text[]) is
'The numbers that a field of a cron expression stands for; refuses what is none (22023).
names: those of the numbers from the lowest on. Where 7 is the highest it is the same as 0.';
