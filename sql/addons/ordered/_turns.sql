create function pgq._turns(queue_id bigint, ordered_keys text[], free text[])
returns boolean[]
language plpgsql volatile parallel unsafe
as $$
begin
    perform pgq._free_keys(array(
        select row(
            coalesce(pg_sequence_last_value('pgq.job_id'), 0), queue_id, null, f.ordered_key
        )::pgq._ended_job
        from (select unnest(free) as ordered_key except select unnest(ordered_keys)) as f
    ));

    return array(
        select
            w.ordered_key is not null
            and (
                f.ordered_key is null
                or row_number() over (partition by w.ordered_key order by w.ordinal) > 1
            )
        from unnest(ordered_keys) with ordinality as w (ordered_key, ordinal)
        left join unnest(free) as f (ordered_key)
            on f.ordered_key collate "C" = w.ordered_key collate "C"
        order by w.ordinal
    );
end
$$;

comment on function pgq._turns(bigint, text[], text[]) is
'Returns which of the new jobs, given in the order of their ids, are blocked by an earlier job of
their key. free: the result of _join_order; keys in it that get none of these jobs are released.';
