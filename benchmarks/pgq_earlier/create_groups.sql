select pgq.drop_group('bench', consumer_group) from pgq.list_groups('bench');
select pgq.create_group('bench', 'g' || number) from generate_series(1, :groups) as number;
