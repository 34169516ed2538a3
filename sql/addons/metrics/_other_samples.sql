create function pgq._other_samples(moment timestamptz)
returns setof pgq._sample
language plpgsql stable parallel unsafe
as $$
begin
    return query select s.* from pgq._house_samples(moment) as s;

    return query select s.* from pgq._worker_samples(moment) as s;

    return query select s.* from pgq._staged_samples(moment) as s;

    return query select s.* from pgq._queue_samples(moment) as s;

    return query select s.* from pgq._holder_samples() as s;
end
$$;

comment on function pgq._other_samples(timestamptz) is
'All samples except those of topics and groups, of which there are thousands.';
