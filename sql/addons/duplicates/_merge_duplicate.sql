create function pgq._merge_duplicate(
    queue_id bigint, holder_id bigint, payload jsonb, headers jsonb, delay interval,
    run_at timestamptz, body bytea
)
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    target pgq.queue;
    held pgq.job;
    now_at timestamptz;
    due_at timestamptz;
    first_at timestamptz;
    key text;
begin
    select q.* into target from pgq.queue as q where q.queue_id = _merge_duplicate.queue_id;

    if target.on_duplicate = 'keep' then
        return;
    end if;

    select j.* into held from pgq.job as j where j.job_id = holder_id and j.lease_token is null;

    if held.job_id is null then
        return;
    end if;

    execute format(
        'update pgq.message_%s as m
        set payload = $3, headers = $4, body = $5
        where m.partition_id = $1 and m.log_offset = $2
        returning m.published_at, m.key',
        held.segment
    )
    into first_at, key
    using held.partition_id, held.log_offset, payload, headers, body;
    perform pgq._note_size(
        held.segment, held.partition_id,
        pgq._check_size(
            null, target.queue, null, array[payload], array[key], array[headers], array[body]
        )
    );
    update pgq.unique_job as u set is_newest = true where u.job_id = holder_id and not u.is_newest;

    now_at := pgq._clock();
    held.expires_at := now_at + target.job_ttl;
    if target.on_duplicate = 'replace' then
        -- The row changes too, so that a claim with an older snapshot, which would read the old
        -- payload, gets 40001.
        update pgq.job as j set expires_at = held.expires_at where j.job_id = holder_id;
        return;
    end if;

    due_at := case
        when delay is null and run_at is null then now_at + target.delay
        else pgq._due_at(target.queue, now_at, delay, run_at, target.job_ttl)
    end;
    due_at := greatest(now_at, least(due_at, first_at + target.debounce_max));

    delete from pgq.job as j where j.job_id = holder_id;
    insert into pgq.job
    select m.* from pgq._moved_job(held, due_at, null, held.ordered_key, null) as m;
    if due_at < held.visible_at then
        perform pgq._announce_jobs(array[holder_id]);
    end if;
end
$$;

comment on function pgq._merge_duplicate(
    bigint, bigint, jsonb, jsonb, interval, timestamptz, bytea
) is
'Gives the waiting job that holds a unique key the content of a duplicate, and with postpone another
time, where the on_duplicate of the queue says so. The caller has locked the job.';
