create function pgq._try_assign(topic text)
returns boolean
language plpgsql volatile parallel unsafe
as $$
begin
    perform from pgq._assign_all(topic, null, null);
    return true;
exception
    -- These errors are worth a retry, or have nothing to do with the topic.
    when transaction_rollback or lock_not_available or insufficient_resources then
        raise;
    when assert_failure or others then
        raise warning 'messages of the deferred topic get no offsets'
            using errcode = sqlstate,
                detail = case
                    when pgq._may('{}') then format('%s.', sqlerrm)
                    else 'The owner of pgq is told more.'
                end,
                hint = 'A subscription that ends now gets no jobs of them.';
        return false;
end
$$;

comment on function pgq._try_assign(text) is
'Assigns offsets to the staged messages of a deferred topic before a part of the topic is removed;
false, with a warning, if that fails, since the part to be removed may be the cause.';
