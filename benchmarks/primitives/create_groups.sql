truncate consumer_offsets;
insert into consumer_offsets (group_id, topic_id, next_offset)
select number, 1, 1 from generate_series(1, :groups) as number;
