-- Moves the group and returns the range.
select * from pgq.claim_offsets('bench', 'g1', :batch::integer);
