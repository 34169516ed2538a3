create function pgq._visible(scope text, access text)
returns bigint[]
language sql stable parallel unsafe
as $$
select pgq._visible_to(pgq._caller(), scope, access)
$$;

comment on function pgq._visible(text, text) is
'The ids of the restricted topics or queues to which the caller has this access.';
