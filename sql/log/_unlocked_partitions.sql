create function pgq._unlocked_partitions(topic text)
returns bigint[]
language plpgsql volatile parallel unsafe
as $$
declare
    free_ids bigint[];
begin
    begin
        free_ids := array(
            select p.partition_id
            from pgq.partition as p
            where p.topic = _unlocked_partitions.topic
            for share skip locked
        );
        raise exception 'these locks are not needed any more' using errcode = '55P03';
    exception
        when lock_not_available then
            if free_ids is null then
                raise;
            end if;
    end;
    return free_ids;
end
$$;

comment on function pgq._unlocked_partitions(text) is
'Returns the ids of the partitions of a topic that no transaction is publishing to; the locks taken
to find out are rolled back.';
