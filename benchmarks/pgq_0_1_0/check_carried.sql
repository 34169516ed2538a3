-- Every job that was carried can still be claimed, with its body.
select format('%s carried jobs with a body, expected %s', count(body), :carried)
from
    generate_series(1, (:carried + 99999) / 100000) as number,
    lateral pgq.claim_job('carried', 100000 + 0 * number)
having count(body) <> :carried;
