create function pgq._finish(
    job_ids bigint[],
    lease_token uuid,
    outcome text,
    result jsonb,
    always boolean
)
returns setof bigint
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    rest bigint[] := _finish.job_ids;
    ended bigint[];
    leaf integer;
    target_id bigint;
    store_id bigint;
    archive boolean;
begin
    -- A queue and a segment at a time; usually there is one of each. What a statement does not find
    -- may have been replaced by a new one while it waited, so it is looked for again.
    while cardinality(rest) > 0 loop
        select j.segment, j.queue_id, q.partition_id, q.archive or _finish.always
        into leaf, target_id, store_id, archive
        from pgq.job as j
        inner join pgq.queue as q on q.queue_id = j.queue_id
        where j.job_id = any(rest)
            and j.lease_token = _finish.lease_token
        limit 1;

        if leaf is null then
            perform pgq._still_leased(rest, _finish.lease_token);
            return;
        end if;

        -- for the leaf: leaf
        with gone as (
            delete from pgq.job as j
            where j.job_id = any({rest})
                and j.lease_token = {_finish.lease_token}
                and j.segment = {leaf}
                and j.queue_id + 0 = {target_id}
            returning j.*
        ),

        archived as (
            insert into pgq.job_archive_{leaf} (
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
                {leaf},
                g.attempt,
                {_finish.outcome},
                g.label,
                {_finish.result},
                g.last_error,
                nullif(g.partition_id, {store_id}),
                case when g.partition_id <> {store_id} then g.log_offset end
            from gone as g
            where {archive}
        )

        select array_agg(g.job_id)
        from gone as g
        into ended;
        -- end of the leaf

        return query
        select unnest(ended);

        exit when cardinality(ended) = cardinality(rest);
        rest := array(
            select r.job_id
            from unnest(rest) as r (job_id)
            where r.job_id <> all(coalesce(ended, '{}'))
        );
    end loop;
end
$$;

comment on function pgq._finish(bigint[], uuid, text, jsonb, boolean) is
'Ends jobs whose lease token is current, archives them where asked, and returns the ids of those it
ended.';
