select format(
    '%s jobs wait, expected %s; %s are archived, expected %s; %s are both; %s payloads',
    waiting, :waiting, finished, :finished, doubled, payloads
)
from (
    select
        (select count(*) from pgq.job) as waiting,
        (
            select count(*) from pgq.job inner join pgq.job_archive using (job_id)
        ) as doubled,
        (select count(*) from pgq.message) as payloads,
        count(*) as rows,
        count(distinct job_id) as finished
    from pgq.job_archive
) as found
where waiting <> :waiting or finished <> :finished or rows <> finished or doubled <> 0
    or payloads <> waiting + finished;
