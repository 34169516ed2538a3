select format('%s jobs, expected %s', count(*), :waiting + :finished)
from message
having count(*) <> :waiting + :finished;
