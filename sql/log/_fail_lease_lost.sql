create function pgq._fail_lease_lost(topic text, consumer_group text, partition integer)
returns void
language plpgsql immutable parallel safe
as $$
begin
    raise exception 'partition % of topic "%" is not leased to this member of consumer group "%"',
        partition, topic, consumer_group
        using errcode = 'MQ006',
            detail = 'The lease token is missing, or of a lease that has ended.',
            hint = 'Nothing was changed. Poll again; another member may have the same messages.';
end
$$;

comment on function pgq._fail_lease_lost(text, text, integer) is
'Raises MQ006.';
