insert into topic (topic_id, c_offset, payload)
select 1, number, :'body'::bytea from generate_series(1, :messages) as number;
update log_counter set next_offset = :messages + 1;
