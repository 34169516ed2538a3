select format('%s messages, expected %s; dense from 1: %s', amount, :messages, dense)
from (
    select
        coalesce(sum(amount), 0) as amount,
        coalesce(bool_and(first_offset = 1 and last_offset = amount), true) as dense
    from (
        select
            count(distinct log_offset) as amount,
            min(log_offset) as first_offset,
            max(log_offset) as last_offset
        from pgq.message
        group by partition_id
    ) as partitions
) as found
where amount <> :messages or not dense;
