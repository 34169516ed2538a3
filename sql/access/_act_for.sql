create function pgq._act_for(owner boolean)
returns void
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
begin
    perform set_config(
        'pgq.acts_for_owner',
        case when _act_for.owner then (select k.key::text from pgq.view_key as k) else '' end,
        true
    );
end
$$;

comment on function pgq._act_for(boolean) is
'Lets a function publish or enqueue where its caller may not: what a schedule writes, or goes to a
dead-letter topic, was allowed to whoever set that up. Between true and false there is nothing but
that; a rollback undoes it too. It goes by a key that nobody else can know.';
