select format('%s messages, expected %s', count(*), :messages)
from message
having count(*) <> :messages;
