-- How many messages all groups together have passed.
select sum(next_offset - 1) from consumer_offsets;
