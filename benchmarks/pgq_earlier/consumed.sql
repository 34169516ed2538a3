-- How many messages all groups together have passed.
select sum(position) from pgq.group_lag;
