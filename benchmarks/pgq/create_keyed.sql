-- A topic of one partition feeds a queue; done is what a worker or consumer writes for its work.
select pgq.create_topic('bench', partitions => 1);
select pgq.create_group('bench', 'g1');
select pgq.create_queue('bench', ordered => :ordered);
select pgq.subscribe('bench', 'bench', 'bench');
create table done (
    done_id bigint generated always as identity primary key, key text, number bigint
);
