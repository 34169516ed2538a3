select format('%s messages from %s to %s, expected %s', amount, first, last, :messages)
from (
    select
        count(distinct c_offset) as amount,
        coalesce(min(c_offset), 1) as first,
        coalesce(max(c_offset), 0) as last
    from topic
) as found
where amount <> :messages or first <> 1 or last <> :messages;
