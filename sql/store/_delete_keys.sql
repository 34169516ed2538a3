create function pgq._delete_keys(segments integer[], scope_id bigint, idempotency_keys text[])
returns void
language plpgsql volatile parallel unsafe
as $$
declare
    leaf integer;
begin
    foreach leaf in array segments loop
        execute format(
            'delete from pgq.idempotency_%1$s as k
            where k.scope_id = $1
                and k.idempotency_key = any($2)
                and k.job_id is null
                and k.partition is null',
            leaf
        )
        using scope_id, idempotency_keys;
    end loop;
end
$$;

comment on function pgq._delete_keys(integer[], bigint, text[]) is
'Deletes keys that this call has inserted into these segments before it found that another
transaction was first.';
