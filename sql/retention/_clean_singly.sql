create function pgq._clean_singly(
    part text, error_code text, error text, max_tries integer, started pg_snapshot, horizon xid8,
    oldest_xid xid8, now_at timestamptz
)
returns table (done pgq.cleanup_action[], tries integer)
language plpgsql volatile parallel unsafe rows 1
as $$
declare
    failed int8multirange := pgq._failed_objects(part);
    ids bigint[];
    met_lock boolean;
    middle integer;
    -- Ranges of positions in ids that are still to be done.
    spans int4range[];
    span int4range;
    -- The other half of what failed: if the first half works, this one is known to fail.
    suspect int4range;
    attempt record;
    found_one boolean := false;
begin
    done := '{}';
    tries := 0;
    if max_tries = 0 then
        -- What is noted already keeps its turn.
        done := array[
            case
                when exists (
                    select
                    from pgq.cleanup_failure as f
                    where f.part = _clean_singly.part and f.object is null
                ) then row('failed', part || ': ' || error_code, 1)::pgq.cleanup_action
                else pgq._note_failure(part, null, error_code, error, now_at)
            end,
            row('more', part, 1)::pgq.cleanup_action
        ];
        return next;
        return;
    end if;

    select o.ids, o.met_lock into ids, met_lock from pgq._list_objects(part) as o;
    if ids is null then
        if met_lock then
            perform pgq._store_failure(part, null, null, null, now_at);
        end if;
        done := array[
            case
                when met_lock then row('busy', part, 1)::pgq.cleanup_action
                else pgq._note_failure(part, null, error_code, error, now_at)
            end
        ];
        return next;
        return;
    end if;
    middle := cardinality(ids) / 2 + 1;
    spans := array[int4range(1, middle), int4range(middle, cardinality(ids) + 1)];
    suspect := spans[2];

    -- A full disk (53100) is not the fault of an object. Without objects the part writes nothing.
    select error_code as error_code, error as error into attempt;
    if ids <> '{}' and error_code <> '53100' then
        select t.*
        into attempt
        from pgq._try_part(part, '{}', started, horizon, oldest_xid, now_at) as t;
    end if;
    if attempt.error is not null then
        done := array[pgq._note_failure(part, null, error_code, error, now_at)];
        return next;
        return;
    end if;
    perform pgq._forget_failures(part, null);

    while spans <> '{}' and tries < max_tries loop
        -- Each of these had a subtransaction of its own.
        exit when exists (
            select
            from unnest(done) as d
            where d.action in ('segment sealed', 'segment truncated')
        );
        span := spans[1];
        spans := spans[2:];
        continue when isempty(span);

        middle := (lower(span) + upper(span)) / 2;
        if span is distinct from suspect or middle = lower(span) then
            tries := tries + 1;
            select t.*
            into attempt
            from pgq._try_part(
                part,
                int8multirange(int8range(ids[lower(span)], ids[upper(span) - 1], '[]')) - failed,
                started, horizon, oldest_xid, now_at
            ) as t;
            done := done || attempt.done;
            continue when attempt.error is null;

            if attempt.error_code = '53100' then
                done := done
                    || pgq._note_failure(part, null, attempt.error_code, attempt.error, now_at);
                return next;
                return;
            end if;
        end if;

        if middle > lower(span) then
            suspect := int4range(middle, upper(span));
            spans := array[int4range(lower(span), middle), suspect] || spans;
        else
            found_one := true;
            suspect := null;
            done := done || pgq._note_failure(
                part, ids[middle], attempt.error_code, attempt.error, now_at
            );
        end if;
    end loop;

    if spans <> '{}' then
        done := done || row('more', part, 1)::pgq.cleanup_action;
    elsif not found_one then
        done := done || pgq._note_failure(part, null, error_code, error, now_at);
    end if;
    return next;
end
$$;

comment on function pgq._clean_singly(
    text, text, text, integer, pg_snapshot, xid8, xid8, timestamptz
) is
'Runs a part of cleanup that failed once more for half of its objects, and so on, down to each one
that fails, with at most max_tries subtransactions, or until it has sealed or truncated segments;
returns its actions and the tries.';
