create function pgq._redrivable(queue_id bigint, dead_ids bigint[])
returns bigint[]
language plpgsql volatile parallel unsafe
as $$
declare
    keyed bigint[];
    unique_keys text[];
begin
    select array_agg(d.job_id), array_agg(d.unique_key)
    into keyed, unique_keys
    from pgq.dead_job as d
    where d.job_id = any(dead_ids)
        and d.queue_id + 0 = _redrivable.queue_id and d.unique_key is not null;
    if keyed is null then
        return dead_ids;
    end if;

    return array(
        select r.job_id
        from unnest(dead_ids) as r (job_id)
        except
        select k.job_id
        from unnest(
            keyed, pgq._take_keys(queue_id, unique_keys, keyed, false)
        ) as k (job_id, holder_id)
        where k.holder_id <> k.job_id
    );
end
$$;

comment on function pgq._redrivable(bigint, bigint[]) is
'Takes the unique keys of dead letters that are redriven, and returns the letters without those
whose key another job holds: these stay dead.';
