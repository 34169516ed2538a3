select format(
    '%s jobs wait, expected %s; %s are archived, expected %s; %s are both',
    waiting, :waiting, finished, :finished, doubled
)
from (
    select
        (select count(*) from queue) as waiting,
        (select count(*) from queue inner join queue_archive using (id)) as doubled,
        count(*) as rows,
        count(distinct id) as finished
    from queue_archive
) as found
where waiting <> :waiting or finished <> :finished or rows <> finished or doubled <> 0;
