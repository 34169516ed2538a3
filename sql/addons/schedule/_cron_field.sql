create function pgq._cron_field(
    field text, given text, lowest integer, highest integer, names text[]
)
returns integer[]
language plpgsql immutable parallel safe
as $$
declare
    item text;
    part text[];
    first_value integer;
    last_value integer;
    step integer;
    last_of_month boolean;
    found_values integer[] := '{}';
begin
    foreach item in array string_to_array(given, ',') loop
        if highest = 31 and item in ('L', 'l') then
            found_values := found_values || 0;
            continue;
        end if;

        -- Forms: *, first or first-last, each with an optional /step. A weekday may have an L after
        -- it.
        last_of_month := highest = 7 and right(item, 1) in ('L', 'l');
        part := regexp_match(
            lower(left(item, case when last_of_month then -1 else length(item) end) collate "C"),
            E'^(?:\\*|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?$'
        );
        if part[1] is null then
            first_value := lowest;
            last_value := highest;
        else
            first_value := case
                when part[1] ~ '[0-9]' then part[1]::integer
                else lowest - 1 + array_position(names, part[1])
            end;
            last_value := case
                when part[2] is null then first_value
                when part[2] ~ '[0-9]' then part[2]::integer
                else lowest - 1 + array_position(names, part[2])
            end;
            -- Sunday is also 7: FRI-SUN.
            if highest = 7 and last_value = 0 and first_value > 0 then
                last_value := 7;
            end if;
        end if;
        step := coalesce(part[3]::integer, 1);

        if (
            part is not null
            and first_value between lowest and highest
            and last_value between lowest and highest
            and (first_value <= last_value or (highest = 7 and part[3] is null))
            and (not last_of_month or (part[1] is not null and part[2] is null and part[3] is null))
            and step between 1 and highest
            and (part[3] is null or part[1] is null or part[2] is not null)
        ) is not true then
            perform pgq._fail_cron(
                format('Field "%s": "%s".', field, left(item, 100))
                || case
                    when part[3] is null
                        and last_value between lowest and first_value - 1
                        and first_value <= highest then format(
                            ' Write %s-%s,%s-%s.', first_value, highest, lowest, last_value
                        )
                    else ''
                end
            );
        end if;

        -- FRI-MON: wrap around the end of the week.
        if last_value < first_value then
            last_value := last_value + 7;
        end if;
        found_values := found_values || array(
            select case
                when highest <> 7 then g.value
                when last_of_month then 7 + g.value % 7
                else g.value % 7
            end
            from generate_series(first_value, last_value, step) as g (value)
        );
    end loop;

    return array(select distinct f.value from unnest(found_values) as f (value) order by f.value);
end
$$;

comment on function pgq._cron_field(text, text, integer, integer, text[]) is
'Returns the numbers that a field of a cron expression stands for; refuses an invalid field (22023).
names: names of the numbers, from lowest on. In the field with highest = 7 (weekdays), 7 is the same
as 0, and in the result 7 to 13 are the last Sunday to Saturday of a month. In the field with
highest = 31 (days), 0 is the last day of the month.';
