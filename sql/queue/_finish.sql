create function pgq._finish(
    job_ids bigint[], lease_token uuid, outcome text, result jsonb, always boolean
)
returns setof bigint
language plpgsql volatile parallel unsafe
as $$
declare
    rest bigint[] := job_ids;
    ended bigint[];
    others pgq.job[];
    leaf integer;
    target_id bigint;
    store_id bigint;
    archive boolean;
    keeps boolean;
begin
    while cardinality(rest) > 0 loop
        -- The jobs of a token are in one queue, and usually in one segment. No join: a plan
        -- prepared while the tables were empty might scan all jobs in the order of their queues.
        select j.segment, j.queue_id
        into leaf, target_id
        from pgq.job as j
        where j.job_id = any(rest) and j.lease_token = _finish.lease_token
        limit 1;

        if leaf is null then
            perform pgq._still_leased(rest, lease_token);
            return;
        end if;

        -- A dropped queue archives nothing: null.
        select q.partition_id, q.archive or always, q.keep_results
        into store_id, archive, keeps
        from pgq.queue as q
        where q.queue_id = target_id;

        -- One delete for all segments: rows are locked in the order of their ids, as everywhere,
        -- which rules out deadlocks.
        perform pgq._lock_leaf(leaf);
        with gone as (
            delete from pgq.job as j
            where j.job_id = any(rest) and j.lease_token = _finish.lease_token
            returning j.*
        ),

        archived as (
            insert into pgq.job_archive (
                job_id,
                queue_id,
                ended_at,
                segment,
                attempt,
                outcome,
                label,
                result,
                last_error,
                partition_id,
                log_offset
            )
            select
                g.job_id,
                g.queue_id,
                pgq._clock(),
                g.segment,
                g.attempt + (g.last_attempt is null)::integer,
                outcome,
                g.label,
                result,
                g.last_error,
                nullif(g.partition_id, store_id),
                case when g.partition_id <> store_id then g.log_offset end
            from gone as g
            where archive and g.segment = leaf
        )

        select
            array_agg(g.job_id),
            array_agg(row(g.*)::pgq.job) filter (
                where keeps
                or (archive and g.segment <> leaf)
                or g.unique_key is not null
                or g.ordered_key is not null
            )
        into ended, others
        from gone as g;

        if others is not null then
            perform pgq._lock_leaf(o.segment) from unnest(others) as o;
            insert into pgq.job_archive (
                job_id,
                queue_id,
                ended_at,
                segment,
                attempt,
                outcome,
                label,
                result,
                last_error,
                partition_id,
                log_offset
            )
            select
                o.job_id,
                o.queue_id,
                pgq._clock(),
                o.segment,
                o.attempt + (o.last_attempt is null)::integer,
                outcome,
                o.label,
                result,
                o.last_error,
                nullif(o.partition_id, store_id),
                case when o.partition_id <> store_id then o.log_offset end
            from unnest(others) as o
            where archive and o.segment <> leaf;

            if keeps then
                perform pgq._note_end(others, 'finished', result);
            end if;
            perform pgq._free_keys(array(
                select row(o.job_id, o.queue_id, o.unique_key, o.ordered_key)::pgq._ended_job
                from unnest(others) as o
            ));
        end if;

        return query select unnest(ended);

        -- A job not found may have got a new row while this statement waited: try again.
        exit when cardinality(ended) = cardinality(rest);
        rest := array(select unnest(rest) except select unnest(ended));
    end loop;
end
$$;

comment on function pgq._finish(bigint[], uuid, text, jsonb, boolean) is
'Ends jobs held under the lease token; returns the ids of those it ended.
Archives them if their queue has archive set, or if always is true.';
