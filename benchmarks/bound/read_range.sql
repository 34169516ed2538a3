-- :batch neighbouring rows by primary key, each client walking the table in order from its own start.
\set first 1 + ((:client_id * :rows / :clients) + :step * :batch) % (:rows - :batch + 1)
\set last :first + :batch - 1
\set step :step + 1
select id, payload from message where id between :first and :last;
