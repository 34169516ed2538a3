select pgq.create_queue('q' || number) from generate_series(1, :queues) as number;
select pgq.subscribe('q' || number, 'bench', 'q' || number) from generate_series(1, :queues) as number;
