create function pgq._shown_target(target text)
returns text
language sql stable parallel unsafe
as $$
select case
    when pgq._may_use(split_part(target, '/', 1), split_part(target, '/', 1), 'monitor') then target
    else '(restricted)'
end
$$;

comment on function pgq._shown_target(text) is
'The target of an action of cleanup, or (restricted) when its name is hidden from the caller.';
