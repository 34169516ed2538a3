create function pgq._fail_truncated(topic text)
returns void
language plpgsql immutable parallel safe
as $$
begin
    raise exception 'retention removed messages of topic "%" while they were being read',
        topic using errcode = '40001', hint = 'The position has not moved. Try again.';
end
$$;

comment on function pgq._fail_truncated(text) is
'Raises 40001.';
