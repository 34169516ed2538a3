-- Within a group each claim begins where the one before ended.
select format('%s claims do not join the one before', count(*))
from (
    select
        first_offset,
        lag(next_offset, 1, 1) over (partition by group_id, partition order by seq) as before
    from pgq.group_position
) as claims
where first_offset <> before
having count(*) > 0;

-- A group that reads the log to its end sees each offset once, in order.
\o /dev/null
select pgq.create_group('bench', 'check');
\o
create temporary table seen (
    number bigint generated always as identity,
    partition integer,
    first_offset bigint,
    last_offset bigint,
    amount bigint
);
do $$
begin
    loop
        insert into seen (partition, first_offset, last_offset, amount)
        select partition, min(log_offset), max(log_offset), count(body)
        from pgq.consume('bench', 'check', 7777)
        group by partition;

        exit when not found;
        commit;
    end loop;
end
$$;

select format('partition %s: lost or doubled at offset %s', partition, first_offset)
from (
    select
        seen.*,
        lag(last_offset, 1, 0::bigint) over (partition by partition order by number) as before
    from seen
) as ranges
where first_offset <> before + 1 or last_offset - first_offset + 1 <> amount;
select format('%s messages, expected %s', coalesce(sum(amount), 0), :messages)
from seen
having coalesce(sum(amount), 0) <> :messages;
