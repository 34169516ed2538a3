-- Every job that was carried can still be claimed, with its body.
select format('%s carried jobs with a body, expected %s', count(body), :carried)
from
    generate_series(1, (:carried + 9999) / 10000) as number,
    lateral pgq.claim_job('carried', 10000 + 0 * number)
having count(body) <> :carried;
