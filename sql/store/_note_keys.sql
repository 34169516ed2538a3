create function pgq._note_keys(
    scope_id bigint, idempotency_window interval, idempotency_keys text[]
)
returns pgq._key_notes
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    notes pgq._key_notes;
    state pgq._key_segments;
    now_at timestamptz;
    pending text[];
    lost text[];
    kept text[];
    seen pgq._noted_key[];
    known pgq._noted_key[] := '{}';
    done integer[];
    leaf integer;
begin
    pending := array(
        select distinct w.idempotency_key collate "C"
        from unnest(idempotency_keys) as w (idempotency_key)
        where w.idempotency_key is not null
        order by 1
    );

    -- Repeat for keys that another transaction has inserted first.
    while cardinality(pending) > 0 loop
        state := pgq._key_segments(scope_id, idempotency_window);
        now_at := pgq._clock();
        seen := null;

        -- A subtransaction, rolled back to release its locks. Held to the end, the table locks of
        -- overlapping transactions would keep an old segment from ever being truncated, and their
        -- row locks would keep the open one from being sealed.
        begin
            if pgq._keeps_snapshot() then
                -- The snapshot may be older than the transaction id: lock the rows that were read,
                -- which raises 40001 if they have changed since.
                perform
                from pgq.storage_class as c
                where c.storage_class_id = any(state.class_ids)
                order by c.storage_class_id
                for share;

                perform
                from pgq.segment as s
                where s.segment = any(state.written)
                order by s.segment
                for share;
            end if;

            seen := array(
                select distinct on (f.idempotency_key) f
                from unnest(state.segments) as s (segment)
                cross join lateral pgq._find_keys(s.segment, scope_id, pending) as f
                where f.ends_at > now_at
                order by f.idempotency_key, f.ends_at desc
            );
            raise exception 'these locks are not needed any more' using errcode = '55P03';
        exception
            when lock_not_available then
                if seen is null then
                    raise;
                end if;
        end;

        if cardinality(seen) > 0 then
            known := known || seen;
            pending := array(
                select w.idempotency_key
                from unnest(pending) as w (idempotency_key)
                except
                select f.idempotency_key
                from unnest(seen) as f
                order by 1
            );
            exit when cardinality(pending) = 0;
        end if;

        -- Ascending order of segments, then of keys: a transaction that waits here holds no later
        -- key, so this cannot deadlock.
        lost := '{}';
        done := '{}';
        foreach leaf in array state.written loop
            kept := pgq._insert_keys(leaf, scope_id, pending, now_at, now_at + idempotency_window);
            done := done || leaf;
            if cardinality(kept) < cardinality(pending) then
                lost := lost || array(
                    select w.idempotency_key
                    from unnest(pending) as w (idempotency_key)
                    except
                    select w.idempotency_key
                    from unnest(kept) as w (idempotency_key)
                );
                perform pgq._delete_keys(done, scope_id, lost);
                pending := kept;
                exit when cardinality(pending) = 0;
            end if;
        end loop;

        notes.segments := array(
            select distinct w.segment
            from unnest(notes.segments || state.written) as w (segment)
            order by w.segment
        );
        pending := array(
            select w.idempotency_key
            from unnest(lost) as w (idempotency_key)
            order by w.idempotency_key
        );
    end loop;

    -- The leader of an element is the first element with its key. Keys that were found have
    -- negative numbers, so they come first.
    select array_agg(w.leader order by w.ordinal)
    into notes.leaders
    from (
        select
            g.ordinal,
            first_value(g.ordinal) over (
                partition by g.idempotency_key,
                case when g.idempotency_key is null then g.ordinal end
                order by g.ordinal
            ) as leader
        from (
            select
                generate_series(1, cardinality(idempotency_keys)) as ordinal,
                unnest(idempotency_keys) collate "C" as idempotency_key
            union all
            select -f.ordinal::integer, f.idempotency_key
            from unnest(known) with ordinality
                as f (idempotency_key, ends_at, job_id, partition, log_offset, ordinal)
        ) as g
    ) as w
    where w.ordinal > 0;

    select array_agg(f.job_id), array_agg(f.partition), array_agg(f.log_offset)
    into notes.job_ids, notes.partitions, notes.log_offsets
    from unnest(known) as f;

    return notes;
end
$$;

comment on function pgq._note_keys(bigint, interval, text[]) is
'Inserts the idempotency keys of a batch for a queue or topic with this window, or finds the jobs or
messages that they stand for; null elements have no key. Waits for open transactions that insert one
of them. The caller has taken its transaction id before it read the window, and calls _store_keys at
the end.';
