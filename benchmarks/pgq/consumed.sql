-- How many messages all groups together have passed.
select sum(committed_offset) from pgq.group_lag;
