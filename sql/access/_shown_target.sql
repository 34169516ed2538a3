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
'What cleanup says that it cleaned, without names that the caller may not know.';
