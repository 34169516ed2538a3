create function pgq._other_samples(now_at timestamptz)
returns setof pgq._sample
language plpgsql stable parallel unsafe
as $$
begin
    return query select s.* from pgq._house_samples(now_at) as s;

    return query select s.* from pgq._worker_samples(now_at) as s;

    return query select s.* from pgq._staged_samples(now_at) as s;

    return query select s.* from pgq._queue_samples(now_at) as s;

    return query select s.* from pgq._holder_samples() as s;
end
$$;

comment on function pgq._other_samples(timestamptz) is
'All samples except those of topics and groups, of which there are thousands.';
