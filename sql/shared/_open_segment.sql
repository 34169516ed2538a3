create function pgq._open_segment(storage_class_id bigint)
returns integer
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    leaf integer;
begin
    -- Two classes that open a segment at once must not take one leaf.
    lock table pgq.segment in share row exclusive mode;

    select min(n.leaf)
    into leaf
    from generate_series(0, (select count(*) from pgq.segment)) as n (leaf)
    where not exists (select from pgq.segment as s where s.segment = n.leaf);

    if to_regclass('pgq.message_' || leaf) is null then
        perform pgq._create_leaf(leaf);
    end if;

    insert into pgq.segment (segment, storage_class_id, state, opened_at)
    values (leaf, _open_segment.storage_class_id, 'open', pgq._clock());

    return leaf;
end
$$;

comment on function pgq._open_segment(bigint) is
'Takes a free leaf for a storage class, or makes one, and returns its number.';
